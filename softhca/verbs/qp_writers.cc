// The ibv_wr_start interface of ibv_qp_ex: requests are built in their queue slots and posted
// together by ibv_wr_complete (ibv_wr_post(3)).
#include <cerrno>
#include <cstring>

#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

Wqe* begin(ibv_qp_ex* ex, ibv_wr_opcode opcode) {
  Qp& qp = Qp::of(ex);
  Builder& builder = qp.builder;
  if (!SendQueue::supports(opcode, qp.pair.config().type)) builder.error = EINVAL;
  builder.current = builder.error != 0 ? nullptr : qp.send_queue.claim();
  if (builder.current == nullptr) {
    if (builder.error == 0) builder.error = ENOMEM;
    return nullptr;
  }
  ++builder.count;
  builder.current->wr_id = ex->wr_id;
  builder.current->flags = ex->wr_flags;
  builder.current->opcode = opcode;
  return builder.current;
}

Wqe* begin_rdma(ibv_qp_ex* ex, ibv_wr_opcode opcode, uint32_t rkey, uint64_t address,
                uint32_t imm) {
  Wqe* wqe = begin(ex, opcode);
  if (wqe == nullptr) return nullptr;
  wqe->rkey = rkey;
  wqe->remote_address = address;
  wqe->imm = imm;
  return wqe;
}

void set_inline(ibv_qp_ex* ex, size_t count, const ibv_data_buf* buffers) {
  Builder& builder = Qp::of(ex).builder;
  Wqe* wqe = builder.current;
  if (wqe == nullptr) return;
  wqe->flags |= IBV_SEND_INLINE;
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i].length > Qp::of(ex).pair.config().cap.max_inline_data - wqe->inline_bytes) {
      builder.error = EINVAL;
      return;
    }
    memcpy(wqe->inline_data + wqe->inline_bytes, buffers[i].addr, buffers[i].length);
    wqe->inline_bytes += static_cast<uint32_t>(buffers[i].length);
  }
}

void set_sges(ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
  Builder& builder = Qp::of(ex).builder;
  Wqe* wqe = builder.current;
  if (wqe == nullptr) return;
  if (count > Qp::of(ex).pair.config().cap.max_send_sge) {
    builder.error = EINVAL;
    return;
  }
  for (size_t i = 0; i < count; ++i) wqe->sge[i] = list[i];
  wqe->num_sge = static_cast<uint32_t>(count);
}

void start(ibv_qp_ex* ex) {
  Qp::of(ex).send_queue.mutex().lock();
  Qp::of(ex).builder = {};
}

int complete(ibv_qp_ex* ex) {
  Qp& qp = Qp::of(ex);
  Builder& builder = qp.builder;
  ibv_qp_state state = qp.pair.state();
  if (builder.error == 0 && state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_ERR) {
    builder.error = EINVAL;
  }
  if (builder.error == 0) {
    qp.send_queue.commit(builder.count);
    if (builder.count != 0) qp.count_doorbell();
    qp.run();
  } else {
    qp.send_queue.abandon();
  }
  const int error = builder.error;
  qp.send_queue.mutex().unlock();
  return error;
}

void abort(ibv_qp_ex* ex) {
  Qp::of(ex).send_queue.abandon();
  Qp::of(ex).send_queue.mutex().unlock();
}

}  // namespace

void set_qp_writers(ibv_qp_ex* qp) {
  qp->wr_start = start;
  qp->wr_complete = complete;
  qp->wr_abort = abort;
  qp->wr_send = [](ibv_qp_ex* ex) { begin(ex, IBV_WR_SEND); };
  qp->wr_send_imm = [](ibv_qp_ex* ex, __be32 imm) {
    begin_rdma(ex, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
  };
  qp->wr_rdma_write = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, address, 0);
  };
  qp->wr_rdma_write_imm = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, __be32 imm) {
    begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
  };
  qp->wr_rdma_read = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    begin_rdma(ex, IBV_WR_RDMA_READ, rkey, address, 0);
  };
  qp->wr_atomic_cmp_swp = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t compare,
                             uint64_t swap) {
    Wqe* wqe = begin_rdma(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, 0);
    if (wqe == nullptr) return;
    wqe->compare_add = compare;
    wqe->swap = swap;
  };
  qp->wr_atomic_fetch_add = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t add) {
    Wqe* wqe = begin_rdma(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, 0);
    if (wqe != nullptr) wqe->compare_add = add;
  };
  qp->wr_set_sge = [](ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t length) {
    ibv_sge sge = {address, length, lkey};
    set_sges(ex, 1, &sge);
  };
  qp->wr_set_sge_list = set_sges;
  qp->wr_set_inline_data = [](ibv_qp_ex* ex, void* address, size_t length) {
    ibv_data_buf buffer = {address, length};
    set_inline(ex, 1, &buffer);
  };
  qp->wr_set_inline_data_list = set_inline;
}

}  // namespace softhca

// Receives: posted by the owner without a lock that peers take, consumed by whoever delivers.
#include <algorithm>
#include <cerrno>

#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

RecvWqe& recv_at(const Peer& owner, const SharedQp& qp, uint64_t position) {
  return *owner.arena().at<RecvWqe>(qp.rq + (position & (qp.rq_entries - 1)) * qp.rq_stride);
}

int post_one(Qp& qp, const ibv_recv_wr& wr) {
  SharedQp& shared = *qp.shared;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.cap.max_recv_sge) return EINVAL;
  uint64_t tail = shared.rq_tail.load(std::memory_order_relaxed);
  if (tail - qp.rq_polled.load(std::memory_order_relaxed) >= qp.cap.max_recv_wr) return ENOMEM;
  RecvWqe& wqe = recv_at(qp.process->self(), shared, tail);
  wqe.wr_id = wr.wr_id;
  wqe.num_sge = static_cast<uint32_t>(wr.num_sge);
  std::copy_n(wr.sg_list, wr.num_sge, wqe.sge);
  // Sequentially consistent with the state below and its change in enter_error(): either that
  // sees this receive and flushes it, or we see the error and flush it.
  shared.rq_tail.store(tail + 1);
  return 0;
}

}  // namespace

void flush_receives(Process& process, const Peer& owner, SharedQp& qp) {
  uint64_t head = qp.rq_head.load();
  for (; head != qp.rq_tail.load(); ++head) {
    Cqe entry = {};
    entry.wr_id = recv_at(owner, qp, head).wr_id;
    entry.status = IBV_WC_WR_FLUSH_ERR;
    entry.opcode = IBV_WC_RECV;
    entry.qp_num = qp.qpn;
    push_completion(process, owner, qp.recv_cq, entry, false);
  }
  qp.rq_head.store(head);
}

int post_recv(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Qp& qp = Qp::of(handle);
  std::lock_guard lock(qp.rq_mutex);
  if (qp.shared->state.load(std::memory_order_relaxed) == IBV_QPS_RESET) {
    *bad_wr = wr;
    return EINVAL;
  }
  int rc = 0;
  for (; wr != nullptr && rc == 0; wr = wr->next) {
    rc = post_one(qp, *wr);
    if (rc != 0) *bad_wr = wr;
  }
  if (qp.shared->state.load() == IBV_QPS_ERR) {
    SharedLock shared_lock(qp.shared->mutex);
    if (qp.shared->state.load() == IBV_QPS_ERR) {
      flush_receives(*qp.process, qp.process->self(), *qp.shared);
    }
  }
  return rc;
}

}  // namespace softhca

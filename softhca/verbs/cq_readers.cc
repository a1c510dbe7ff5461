// The ibv_start_poll interface of ibv_cq_ex: it delivers one completion at a time, whose fields are
// read by functions (ibv_create_cq_ex(3)).
#include <endian.h>

#include <cerrno>

#include "softhca/verbs/cq.h"

namespace softhca {

namespace {

int next(ibv_cq_ex* ex) {
  Cq& cq = Cq::of(ex);
  if (!cq.pop(&cq.current)) return ENOENT;
  ex->wr_id = cq.current.wr_id;
  ex->status = static_cast<ibv_wc_status>(cq.current.status);
  return 0;
}

// Holds the poll mutex until end(), unless there is no completion.
int start(ibv_cq_ex* ex, ibv_poll_cq_attr* attr) {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  Cq& cq = Cq::of(ex);
  cq.poll_mutex.lock();
  int rc = next(ex);
  if (rc != 0) cq.poll_mutex.unlock();
  return rc;
}

void end(ibv_cq_ex* ex) { Cq::of(ex).poll_mutex.unlock(); }

}  // namespace

void set_cq_readers(ibv_cq_ex* cq) {
  cq->start_poll = start;
  cq->next_poll = next;
  cq->end_poll = end;
  cq->read_opcode = [](ibv_cq_ex* ex) {
    return static_cast<ibv_wc_opcode>(Cq::of(ex).current.opcode);
  };
  cq->read_vendor_err = [](ibv_cq_ex*) { return uint32_t{0}; };
  cq->read_byte_len = [](ibv_cq_ex* ex) { return Cq::of(ex).current.byte_len; };
  cq->read_imm_data = [](ibv_cq_ex* ex) { return __be32{Cq::of(ex).current.imm}; };
  cq->read_qp_num = [](ibv_cq_ex* ex) { return Cq::of(ex).current.qp_num; };
  cq->read_src_qp = [](ibv_cq_ex* ex) { return Cq::of(ex).current.src_qp; };
  cq->read_wc_flags = [](ibv_cq_ex* ex) -> unsigned { return Cq::of(ex).current.wc_flags; };
  cq->read_slid = [](ibv_cq_ex* ex) -> uint32_t { return Cq::of(ex).current.slid; };
  cq->read_sl = [](ibv_cq_ex* ex) { return Cq::of(ex).current.sl; };
  cq->read_dlid_path_bits = [](ibv_cq_ex*) { return uint8_t{0}; };
}

}  // namespace softhca

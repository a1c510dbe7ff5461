#include "softhca/datapath/receive_queue.h"

#include <algorithm>
#include <cerrno>

#include "softhca/datapath/receive_ring.h"

namespace softhca {

int ReceiveQueue::post_one(const ibv_recv_wr& wr) {
  SharedQp& shared = qp_.shared();
  const ibv_qp_cap& cap = qp_.config().cap;
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > cap.max_recv_sge) return EINVAL;
  uint64_t tail = shared.rq_tail.load(std::memory_order_relaxed);
  if (tail - qp_.receives_polled() >= cap.max_recv_wr) return ENOMEM;
  RecvWqe& wqe = receive_at(qp_.process().self(), shared, tail);
  wqe.wr_id = wr.wr_id;
  wqe.num_sge = static_cast<uint32_t>(wr.num_sge);
  std::copy_n(wr.sg_list, wr.num_sge, wqe.sge);
  // Sequentially consistent with the load of the state in post(), and with its change in
  // enter_error(): either that one sees this receive and flushes it, or post() sees the error.
  shared.rq_tail.store(tail + 1);
  return 0;
}

int ReceiveQueue::post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  std::lock_guard lock(mutex_);
  if (qp_.state(std::memory_order_relaxed) == IBV_QPS_RESET) {
    *bad_wr = wr;
    return EINVAL;
  }
  int rc = 0;
  uint64_t posted = 0;
  for (; wr != nullptr && rc == 0; wr = wr->next) {
    rc = post_one(*wr);
    if (rc != 0) *bad_wr = wr;
    posted += rc == 0 ? 1 : 0;
  }
  if (Counters* counters = qp_.process().counters()) {
    counters->add_receives(qp_.shared().device, qp_.shared().port, posted);
  }
  if (qp_.state() == IBV_QPS_ERR) {
    SharedLock shared_lock(qp_.shared().mutex);
    if (qp_.state() == IBV_QPS_ERR) {
      flush_receives(qp_.process(), qp_.process().self(), qp_.shared());
    }
  }
  return rc;
}

}  // namespace softhca

// The receive queue of a QP, as its owner posts to it.
#pragma once

#include <infiniband/verbs.h>

#include <mutex>

#include "softhca/datapath/queue_pair.h"

namespace softhca {

class ReceiveQueue {
 public:
  explicit ReceiveQueue(QueuePair& qp) : qp_(qp) {}

  // As ibv_post_recv: 0, EINVAL or ENOMEM, with *bad_wr the first request that was not posted.
  int post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
  // Makes all slots free again, after the ring was emptied (RESET).
  void clear() { qp_.set_receives_polled(qp_.shared().rq_tail.load()); }

 private:
  int post_one(const ibv_recv_wr& wr);

  QueuePair& qp_;
  std::mutex mutex_;
};

}  // namespace softhca

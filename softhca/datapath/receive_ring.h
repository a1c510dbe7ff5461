// The ring of posted receives of a QP, which lies in its owner's arena. The owner appends without a
// lock that peers take; whoever delivers to the QP consumes, under SharedQp::mutex.
#pragma once

#include "softhca/fabric/process.h"

namespace softhca {

inline RecvWqe& receive_at(const Peer& owner, const SharedQp& qp, uint64_t position) {
  return *owner.arena().at<RecvWqe>(qp.rq + (position & (qp.rq_entries - 1)) * qp.rq_stride);
}

// The next receive to consume; there is one. qp.mutex is held, as below.
inline const RecvWqe& oldest_receive(const Peer& owner, const SharedQp& qp) {
  return receive_at(owner, qp, qp.rq_head.load(std::memory_order_relaxed));
}

inline void pop_receive(SharedQp& qp) {
  qp.rq_head.store(qp.rq_head.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// Consumes the next receive for a transfer that is in progress from now on. complete_taken() or
// put_back() follows, in the order of the transfers.
inline void take_receive(SharedQp& qp) {
  pop_receive(qp);
  ++qp.rq_taken;
}

inline void complete_taken(SharedQp& qp) { --qp.rq_taken; }

// Undoes take_receive() for the last `count` receives.
inline void put_back(SharedQp& qp, uint32_t count) {
  qp.rq_taken -= count;
  qp.rq_head.store(qp.rq_head.load(std::memory_order_relaxed) - count, std::memory_order_release);
}

// Completes all posted receives of a QP of `owner` with IBV_WC_WR_FLUSH_ERR. Does nothing for a QP
// whose device has failed silently, and while transfers into the QP are in progress: whoever ends
// the last of them calls this again, so that the completions are in order. qp.mutex is held.
void flush_receives(const Process& process, const Peer& owner, SharedQp& qp);

}  // namespace softhca

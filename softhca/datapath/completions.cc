#include "softhca/datapath/completions.h"

#include "softhca/fabric/event_queue.h"

namespace softhca {

namespace {

// cq.mutex is held.
void signal_channel(const Process& process, const Peer& owner, uint32_t cq_index, SharedCq& cq,
                    bool solicited) {
  if (cq.armed == Armed::kNo || (cq.armed == Armed::kSolicited && !solicited)) return;
  // One event serves any number of arms that the application has not read yet. It is recorded once
  // it is posted: a process that is killed in between must not silence the CQ.
  if (cq.event_queued == 0 && post_event(process, owner, cq.event_queue, {0, cq_index})) {
    cq.event_queued = 1;
  }
  cq.armed = Armed::kNo;
}

}  // namespace

bool push_completion(const Process& process, const Peer& owner, uint32_t cq_index, const Cqe& entry,
                     bool solicited) {
  SharedCq& cq = owner.arena().cq(cq_index);
  SharedLock lock(cq.mutex);
  uint64_t tail = cq.tail.load(std::memory_order_relaxed);
  if (tail - cq.head.load(std::memory_order_acquire) >= cq.limit) {
    if (cq.overrun.exchange(1) == 0) {
      post_event(process, owner, cq.async_queue, {IBV_EVENT_CQ_ERR, cq_index});
    }
    return false;
  }
  owner.arena().at<Cqe>(cq.ring)[tail & (cq.entries - 1)] = entry;
  cq.tail.store(tail + 1, std::memory_order_release);
  signal_channel(process, owner, cq_index, cq, solicited || entry.status != IBV_WC_SUCCESS);
  return true;
}

}  // namespace softhca

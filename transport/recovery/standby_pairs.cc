#include <algorithm>
#include <cerrno>

#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {

bool StandbyPairs::is_active_usable() const {
  return std::ranges::any_of(state_.pairs, [](const Pair& pair) {
    return !pair.stands_by && pair.known == Known::kUsing && pair.agreement.usable();
  });
}

// Whether the data path does not touch the QP of a pair that is withdrawn, nor begins to: it has
// finished with the pair; or it has not used it in this epoch and has an active pair, which it
// leaves only with the mutex, to take the news of that one's loss and of this one's.
bool StandbyPairs::is_unused(const Pair& pair) const {
  if (!pair.is_stopped()) return false;
  if (pair.known == Known::kFinished) return state_.sends() || pair.counted;
  if (pair.known != Known::kUsing || !is_active_usable()) return false;
  if (state_.sends()) return state_.link->is_idle();
  return pair.counted && !pair.arrivals.is_used();
}

// Whether a standby pair's QP can go: at once, or if_busy, when the data path has taken the news of
// the loss. Not one that its HCA may not answer for, as the caller would wait for that: one that is
// lost, unless an end has given it up, whose port is down, or that could not be stopped or
// destroyed before.
bool StandbyPairs::may_give_way(const Pair& pair, bool if_busy) const {
  const bool reviving = pair.holder == RecoveryState::Holder::kReviver;
  const bool there = pair.stands_by && state_.io.has_queue_pair(pair.index) && !reviving;
  const bool answers = !pair.is_hopeless() && pair.stop_error == 0 && !state_.is_port_down(pair);
  if (!there || !answers || !is_active_usable()) return false;
  const bool at_peer = pair.agreement.peer().cause.reason == wire::PairReason::kWithdrawn;
  if (pair.outlook == RecoveryState::Outlook::kWithdrawn || at_peer) return true;
  if (pair.agreement.lost() || pair.known != Known::kUsing) return false;
  const bool carries = !state_.sends() && pair.arrivals.is_used();
  return if_busy ? !state_.link->is_idle() : state_.link->is_idle() && !carries;
}

Room StandbyPairs::give_way(const HcaContext* hca, bool if_busy) {
  RecoveryLock lock(state_.mutex);
  if (state_.closed || !state_.recovers) return Room::kNone;
  if (state_.link == nullptr || state_.link->failed()) return Room::kNone;
  for (Pair& pair : state_.pairs) {
    const bool there = hca == nullptr || state_.device(pair.rail).hca.get() == hca;
    if (!there || !may_give_way(pair, if_busy)) continue;
    withdraw(state_, pair, ENOMEM);
    take_steps(state_, state_.now());
    if (is_stop_due(state_, pair, state_.now())) {
      stop_pair(state_, pair, lock);
      take_steps(state_, state_.now());
    }
    if (state_.closed) return Room::kNone;
    if (!is_unused(pair) && if_busy) return Room::kAwaited;
    if (!is_unused(pair)) continue;
    pair.give_up();  // before the mutex is given up: nothing may look at the QP then
    const int err = destroy_queue_pair(state_, pair, lock);
    if (state_.closed) return Room::kNone;
    if (err != 0) continue;
    give_back_rail(pair.rail, lock);
    return Room::kMade;
  }
  return Room::kNone;
}

// Without the mutex: these verbs wait for firmware. A CQ that the data path does not leave in time,
// or that its HCA fails to destroy, is not used any more, and is destroyed when the connection is
// closed.
void StandbyPairs::give_back_rail(uint32_t rail, RecoveryLock& lock) {
  if (is_rail_needed(rail)) return;
  const bool gives_queue = (kept_queues_ >> rail & 1) == 0;
  if (gives_queue) state_.queues.remove(rail);
  bool destroyed = false;
  {
    const Unlocked unlocked(state_, lock);
    registrations_->give_back(rail);
    state_.io.set_up().tables->give_back(rail);
    destroyed = gives_queue && state_.queues.are_left() && state_.io.destroy_queue(rail) == 0;
  }
  if (destroyed) state_.io.set_up().rails->forget_queue(rail);
}

// Whether a QP is on the rail, or the CQ has yet to show what has arrived. No CQ is destroyed that
// has a QP: the kernel refuses that (EBUSY), but libbnxt_re and libsiw have unmapped parts of the
// CQ by then.
bool StandbyPairs::is_rail_needed(uint32_t rail) const {
  return std::ranges::any_of(state_.pairs, [&](const Pair& pair) {
    const bool destroying = pair.holder == RecoveryState::Holder::kDestroyer;
    const bool has_qp = state_.io.has_queue_pair(pair.index) || destroying;
    return pair.rail == rail && (has_qp || pair.awaits_empty != 0 || !pair.stands_by);
  });
}

bool StandbyPairs::keep_queue(uint32_t rail) {
  std::lock_guard lock(state_.mutex);
  kept_queues_ |= 1u << rail;
  return state_.queues.has(rail);
}

}  // namespace gdr::transport

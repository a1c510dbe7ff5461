#include "transport/recovery/pair_reviver.h"

#include "transport/recovery/loss_log.h"
#include "transport/recovery/rail_states.h"

namespace gdr::transport {
namespace {

using Pair = RecoveryState::Pair;
using Holder = RecoveryState::Holder;

// What another attempt has shown spares this one, but not where the peer has resolved this end's
// address since. A connection without a usable pair makes the attempt sooner.
bool is_most_likely_in_vain(const RecoveryState& state, const Pair& pair) {
  const PairAgreement& agreement = pair.agreement;
  return !agreement.peer_waits() &&
         is_held_unreachable(state.io, pair.index, agreement.peer_address(),
                             /*urgent=*/!state.is_any_usable());
}

bool may_revive(const RecoveryState& state, const Pair& pair, RecoveryTime now) {
  const bool waits = pair.holder == Holder::kNobody && pair.may_return();
  return waits && !state.link->failed() && !state.is_too_late(now) &&
         pair.agreement.next(now) == PairAction::kRevive;
}

// The QP is used without the mutex, since the kernel may take seconds to resolve an address;
// nothing else uses it then: the data path has finished with it, and Recovery::close() waits.
Result<wire::PortAddress> connect_pair(RecoveryState& state, Pair& pair,
                                       const wire::PortAddress& peer, RecoveryLock& lock) {
  const uint32_t epoch = pair.agreement.epoch() + 1;
  const Unlocked unlocked(state, lock, &pair, Holder::kReviver);
  PairArrivals& arrivals = pair.arrivals;
  arrivals.count.store(0, std::memory_order_relaxed);
  arrivals.receives.store(static_cast<uint64_t>(state.io.set_up().receives),
                          std::memory_order_relaxed);
  arrivals.lost.store(false, std::memory_order_relaxed);
  arrivals.epoch.store(epoch & PairArrivals::kEpochMask, std::memory_order_release);
  return connect_again(state.io, pair.index, epoch, peer);
}

// A QP in RESET flushes nothing. Where the HCA refuses, that does no harm: the peer sends nothing
// before this end has stated that the pair is ready, and the next attempt begins with RESET.
void stop_again(RecoveryState& state, Pair& pair, RecoveryLock& lock) {
  pair.arrivals.epoch.store(PairArrivals::kCounted, std::memory_order_release);
  const Unlocked unlocked(state, lock, &pair, Holder::kReviver);
  (void)state.io.reset(pair.index);
}

void revive(RecoveryState& state, Pair& pair, RecoveryTime now, RecoveryLock& lock) {
  if (is_most_likely_in_vain(state, pair)) return pair.agreement.returns().on_put_off(now);
  const RecoveryTime began = RecoveryState::Clock::now();
  const wire::PortAddress peer = pair.agreement.peer_address();
  const Result<wire::PortAddress> revived = connect_pair(state, pair, peer, lock);
  if (state.closed) return;
  const RecoveryState::Clock::duration took = RecoveryState::Clock::now() - began;
  if (!revived) {
    log_failed_return(state, pair, revived.error(), now + took);
    if (pair.agreement.may_revive()) pair.agreement.returns().on_failed(now + took);
    return;
  }
  // In the meantime its HCA or its port may have gone, or the connection may have failed.
  const PairAction next = pair.agreement.next(RecoveryTime::max());
  if (state.link->failed() || next != PairAction::kRevive) return stop_again(state, pair, lock);
  pair.agreement.on_connected(*revived, peer);
  pair.agreement.on_revived();
  pair.begin_epoch(now + took);
}

}  // namespace

// An event may be lost. The state of a port counts where a pair is to be tried again, and where a
// port that was reported as down has not cost its pairs yet.
bool is_revival_due(const RecoveryState& state, const Pair& pair, RecoveryTime now) {
  if (state.link->failed() || pair.is_hopeless()) return false;
  const bool port_counts = pair.agreement.lost() || state.is_port_down(pair);
  return may_revive(state, pair, now) || (port_counts && now >= state.rails[pair.rail].query_at);
}

void revive_pairs(RecoveryState& state, uint32_t rail, RecoveryTime now, RecoveryLock& lock) {
  query_port(state, rail, now, lock);
  for (Pair& pair : state.pairs) {
    if (state.closed) return;
    if (pair.rail == rail && may_revive(state, pair, now)) revive(state, pair, now, lock);
  }
}

}  // namespace gdr::transport

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

bool may_revive(RecoveryState& state, Pair& pair, RecoveryTime now, RecoveryLock& lock) {
  PairAgreement& agreement = pair.agreement;
  if (state.link->failed() || agreement.next(now) != PairAction::kRevive) return false;
  const std::optional<bool> active = query_port(state, pair, lock);
  if (!active || state.link->failed() || agreement.next(now) != PairAction::kRevive) return false;
  if (!*active) {
    agreement.returns().set_port_active(false);
    return false;
  }
  if (!is_most_likely_in_vain(state, pair)) return true;
  agreement.returns().on_put_off(now);
  return false;
}

// The QP is used without the mutex, since the kernel may take seconds to resolve an address;
// nothing else uses it then: the data path has finished with it, and Recovery::close() waits.
Result<wire::PortAddress> connect_pair(RecoveryState& state, Pair& pair,
                                       const wire::PortAddress& peer, RecoveryLock& lock) {
  const uint32_t epoch = pair.agreement.epoch() + 1;
  const Unlocked unlocked(state, lock);
  PairArrivals& arrivals = pair.arrivals;
  arrivals.count.store(0, std::memory_order_relaxed);
  arrivals.receives.store(static_cast<uint64_t>(state.io.set_up().receives),
                          std::memory_order_relaxed);
  arrivals.stopped.store(false, std::memory_order_relaxed);
  arrivals.epoch.store(epoch & PairArrivals::kEpochMask, std::memory_order_release);
  return connect_again(state.io, pair.index, epoch, peer);
}

// A QP in RESET flushes nothing. Where the HCA refuses, that does no harm: the peer sends nothing
// before this end has stated that the pair is ready, and the next attempt begins with RESET.
void stop_again(RecoveryState& state, Pair& pair, RecoveryLock& lock) {
  pair.arrivals.epoch.store(PairArrivals::kCounted, std::memory_order_release);
  const Unlocked unlocked(state, lock);
  (void)state.io.reset(pair.index);
}

void revive(RecoveryState& state, Pair& pair, RecoveryTime now, RecoveryLock& lock) {
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

uint32_t claim_revivals(RecoveryState& state, RecoveryTime now) {
  uint32_t due = 0;
  if (!state.link->failed() && !state.is_too_late(now)) {
    for (Pair& pair : state.pairs) {
      const bool revives = pair.may_return() && pair.agreement.next(now) == PairAction::kRevive;
      if (revives) pair.holder = Holder::kReviver;
      if (pair.holder == Holder::kReviver) due |= 1u << pair.rail;
    }
  }
  for (const Pair* pair : ports_to_query(state, now)) due |= 1u << pair->rail;
  return due;
}

void revive_pairs(RecoveryState& state, RecoveryTime now, uint32_t rails, RecoveryLock& lock) {
  state.asked_to_revive &= ~rails;
  if (!state.closed) query_ports(state, now, rails, lock);
  for (Pair& pair : state.pairs) {
    if (state.closed) return;
    if (pair.holder != Holder::kReviver || (rails >> pair.rail & 1) == 0) continue;
    if (may_revive(state, pair, now, lock)) revive(state, pair, now, lock);
    if (pair.holder == Holder::kReviver) pair.holder = Holder::kNobody;
  }
}

}  // namespace gdr::transport

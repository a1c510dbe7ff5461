#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {
namespace {

using Pair = RecoveryState::Pair;
using Holder = RecoveryState::Holder;
using Rest = RecoveryState::Rest;

// The pause before a QP that was not moved to ERROR is tried again.
constexpr std::chrono::seconds kStopAgain{1};

// The data path posts nothing more on the pair, whose QP is in ERROR. Where the HCA refuses the
// marker, it is tried again at every step, the watcher's once a second at least: completions that
// the data path has yet to poll may occupy what it lacks.
void post_marker(RecoveryState& state, Pair& pair) {
  const WorkId id{WorkKind::kProbe, pair.index, pair.agreement.epoch(), kMarker};
  if (state.io.post_probe(pair.index, encode(id), 0) == 0) pair.rest = Rest::kMarked;
}

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
  if (is_most_likely_in_vain(state, pair)) return pair.agreement.returns().on_failed(now);
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

// A connection that has failed stops all of them: a peer that has lost the socket learns of the
// failure by its own writes, which fail then.
bool is_stop_due(const RecoveryState& state, const Pair& pair, RecoveryTime now) {
  if (pair.holder != Holder::kDataPath || now < pair.stop_at) return false;
  const bool wanted = pair.agreement.lost() || state.link->failed();
  return wanted && state.io.has_queue_pair(pair.index);
}

// Without the mutex: firmware may not answer. Until it has, the pair is lost and not down, and the
// data path may post on it. Where the HCA refuses, late packets could still arrive. The QP is then
// destroyed once the data path does not use it any more; until then the change is tried again from
// time to time.
void stop_pair(RecoveryState& state, Pair& pair, RecoveryLock& lock) {
  int err = 0;
  {
    const Unlocked unlocked(state, lock, &pair, Holder::kStopper);
    err = state.io.stop(pair.index);
  }
  if (state.closed) return;
  const RecoveryTime now = state.now();
  pair.stop_error = err;
  pair.stop_at = err == 0 ? RecoveryTime{} : now + kStopAgain;
  if (err == 0 || (pair.is_hopeless() && PairIo::is_gone(err))) on_stopped(state, pair, now);
}

// A QP that was never ready is in RESET: nothing has arrived over it, and it flushes nothing.
void on_stopped(RecoveryState& state, Pair& pair, RecoveryTime now) {
  const bool is_reset = state.io.has_queue_pair(pair.index) && state.io.is_reset(pair.index);
  if (is_reset) pair.flush_seen = true;
  pair.stop_error = 0;
  pair.holder = Holder::kNobody;
  pair.agreement.on_stopped(now);
}

// What has arrived and is still in the CQ may go with the QP: the sender then sends it again, or
// finds that it was acknowledged, which is an error.
void destroy_pair(RecoveryState& state, Pair& pair, RecoveryLock& lock) {
  const int refused = std::exchange(pair.stop_error, 0);
  const int err = destroy_queue_pair(state, pair, lock);
  const std::string path = state.io.path_text(pair.index);
  const std::string errors = "errno " + std::to_string(refused) + " and " + std::to_string(err);
  if (err != 0 && !PairIo::is_gone(err)) {
    return state.fail(Code::kSystem,
                      "the QP of " + path + " could be neither moved to ERROR nor destroyed (" +
                          errors +
                          "), so that the pair cannot be recovered. Fix: look for errors of "
                          "that HCA in the kernel's log");
  }
  GDR_INFO(log::kNet,
           "%s is not used again: its QP could not be moved to ERROR, and was destroyed (%s)",
           path.c_str(), errors.c_str());
  pair.give_up();
  on_stopped(state, pair, state.now());
}

// Without the mutex, since the watcher may wait for that with an event of this QP, for which
// ibv_destroy_qp waits.
int destroy_queue_pair(RecoveryState& state, Pair& pair, RecoveryLock& lock) {
  verbs::UniqueQp qp = std::move(state.io.at(pair.index).qp);
  int err = 0;
  {
    const Unlocked unlocked(state, lock, &pair, Holder::kDestroyer);
    err = PairIo::destroy(&qp);
  }
  if (qp != nullptr) state.io.at(pair.index).qp = std::move(qp);
  return err;
}

// Once the QP is in ERROR nothing arrives any more. The arrivals that were there are counted when
// the data path has come to a receive that was flushed, or to the last one that was posted, or has
// nothing outstanding at all: without a receive that is posted by NCCL, the sender had nothing to
// write to.
void count_arrivals(RecoveryState& state, Pair& pair, RecoveryTime now) {
  if (state.sends() || !pair.is_stopped() || pair.counted) return;
  if (!pair.flush_seen && !state.link->is_idle()) return;
  pair.counted = true;
  pair.arrivals.epoch.store(PairArrivals::kCounted, std::memory_order_release);
  pair.agreement.on_counted(pair.arrivals.count.load(std::memory_order_acquire), now);
}

void note_empty_queue(RecoveryState& state, uint32_t rail, uint32_t awaited) {
  for (Pair& pair : state.pairs) {
    const uint32_t since = pair.awaits_empty;
    if (pair.rail == rail && since != 0 && since <= awaited) pair.flush_seen = true;
  }
}

// An HCA that is gone flushes no receives, so that an empty CQ has to show that all arrivals are
// counted. Only a poll that began after the pair was stopped shows that.
void await_empty_queues(RecoveryState& state) {
  uint32_t last = 0;
  for (Pair& pair : state.pairs) {
    const bool counts = !state.sends() && !pair.counted;
    if (!counts || !pair.is_hopeless() || !pair.is_stopped()) {
      pair.awaits_empty = 0;
    } else if (pair.awaits_empty == 0) {
      pair.awaits_empty = ++state.awaits;
    }
    last = std::max(last, pair.awaits_empty);
  }
  state.queues.await_empty(last);
}

// A QP that returns must find nothing of its last epoch in the CQ. Not every driver removes that at
// the change to RESET (rxe and irdma do not, libmlx5, libmlx4 and libbnxt_re do): what is left
// would take the room of the next completions, and be looked up among the new work requests. Work
// requests complete in order, so that the send queue is empty when one has completed that was
// posted last, in ERROR, as ib_drain_qp() of Linux does it. Receives are counted instead: rxe does
// not see those that a process posts in ERROR. A QP without the completion of its marker is not
// used again: where its HCA is gone, or takes no work request in ERROR.
bool drain_pair(RecoveryState& state, Pair& pair) {
  if (pair.is_hopeless()) return false;
  const bool counts = !state.sends();
  const uint64_t arrived = counts ? pair.arrivals.count.load(std::memory_order_relaxed) : 0;
  const uint64_t receives = pair.arrivals.receives.load(std::memory_order_relaxed);
  const bool ended = pair.rest == Rest::kSent && arrived + pair.flushed >= receives;
  if (ended || state.io.is_reset(pair.index)) pair.rest = Rest::kNothing;
  if (pair.rest == Rest::kSome) post_marker(state, pair);
  return pair.rest == Rest::kNothing;
}

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

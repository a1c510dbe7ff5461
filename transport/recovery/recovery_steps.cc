#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_parts.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;
using Known = RecoveryState::Known;
using Pair = RecoveryState::Pair;

// Work requests are flushed before the event or the completion that names the cause is seen.
constexpr milliseconds kCauseTime{20};
// How often the watcher looks after a recovery that is under way: at first, and after a while.
constexpr milliseconds kOften{10};
constexpr milliseconds kSeldom{100};
constexpr std::chrono::seconds kSeldomAfter{5};
// How long a data path that is called takes for the news of a loss, at most.
constexpr std::chrono::seconds kTimeToTakeNews{1};
// ChunkCounts::posted, which only the data path knows.
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

void while_ready(RecoveryState& state, Pair& pair, RecoveryTime now) {
  PairAgreement& agreement = pair.agreement;
  if (pair.flushed_at && now - *pair.flushed_at >= kCauseTime) {
    agreement.on_failure({wire::PairReason::kCompletion, IBV_WC_WR_FLUSH_ERR});
  }
  if (agreement.next(now) == PairAction::kProbe) probe_return(state, pair);
  if (agreement.awaits_probe() && state.io.peer_probed(pair.index) == agreement.epoch()) {
    agreement.returns().on_peer_probed();
  }
  if (agreement.usable()) log_return(state, pair);
}

void while_lost(RecoveryState& state, Pair& pair, RecoveryTime now) {
  if (!pair.lost_at) {
    if (state.peer_probe_on == pair.index) state.peer_probe_on.reset();
    pair.arrivals.lost.store(true, std::memory_order_release);
    note_loss(state, pair, now);
  }
  count_arrivals(state, pair, now);
}

// The sender's data path checks the arrivals, too, once it is called.
void while_draining(RecoveryState& state, Pair& pair) {
  if (state.sends() && pair.known != Known::kFinished) {
    const uint64_t acknowledged = pair.arrivals.count.load(std::memory_order_acquire);
    Status plausible = check_arrived({.acknowledged = acknowledged, .posted = kUnknown},
                                     pair.agreement.peer().arrived);
    if (!plausible) state.fail(plausible.error().code, plausible.error().text);
  }
  if (pair.is_finished() && drain_pair(state, pair)) pair.agreement.on_data_path_done();
}

// As far as the pair comes now.
void advance(RecoveryState& state, Pair& pair, RecoveryTime now) {
  PairPhase phase;
  do {
    phase = pair.phase();
    switch (phase) {
      case PairPhase::kUsing:
      case PairPhase::kReturning:
        while_ready(state, pair, now);
        break;
      case PairPhase::kLosing:
      case PairPhase::kAgreeing:
        while_lost(state, pair, now);
        break;
      case PairPhase::kDraining:
        while_draining(state, pair);
        break;
      case PairPhase::kResting:
      case PairPhase::kReviving:
      case PairPhase::kGivenUp:
        break;
    }
  } while (pair.phase() != phase);
}

// Nothing is outstanding or asked for, and a pair may return: perhaps only when NCCL calls the
// other end.
bool needs_no_pair(const RecoveryState& state) {
  const PeerLink& link = *state.link;
  const bool waits = !link.is_idle() || link.awaits_pair() || link.deaf();
  return !waits && std::ranges::any_of(state.pairs, &Pair::may_return);
}

// When a Recovery ends its connection. Where no pair is usable, the connection waits for one to
// return: a port that was down may come back within a second, and two ends may each have given up
// another rail at the same time.
void fail_if_none_is_left(RecoveryState& state, RecoveryTime now) {
  std::optional<RecoveryTime>& since = state.none_usable_since;
  const bool usable = state.is_any_usable();
  for (Pair& pair : state.pairs) pair.agreement.returns().set_urgent(!usable);
  if (usable || needs_no_pair(state)) return since.reset();
  if (!since) since = now;
  const bool awaits_own_probe = std::ranges::any_of(state.pairs, [](Pair& pair) {
    return pair.agreement.awaits_probe() && !pair.agreement.returns().own_probe_done();
  });
  if (awaits_own_probe) return;
  // Without the socket, the ends agree on a pair over another one only.
  const bool returns = std::ranges::any_of(state.pairs, &Pair::may_return);
  const bool waits = returns && !state.link->deaf();
  if (waits && !state.is_too_late(now)) return;
  std::vector<RailLoss> lost;
  for (const Pair& pair : state.pairs) lost.push_back(describe_loss(state, pair));
  state.fail(Code::kRemote, no_pair_is_left_text(lost, waits ? now - *since : now - now));
}

// Whether the watcher does what the data path of a sender without outstanding requests would do:
// the receiver may need a pair, to flush what has arrived or to announce a receive, and NCCL does
// not call this end for that.
bool acts_for_data_path(const RecoveryState& state) {
  return state.sends() && state.link->is_idle() && !state.link->failed() && !state.is_any_usable();
}

RecoveryTime deadline_of(const RecoveryState& state, const Pair& pair, RecoveryTime now) {
  const PairAgreement& agreement = pair.agreement;
  const PairPhase phase = pair.phase();
  const bool is_asked_for = (state.asked_to_revive >> pair.rail & 1) != 0;
  const bool waits = phase == PairPhase::kReviving || is_asked_for || state.is_too_late(now) ||
                     (agreement.lost() && !pair.may_return());
  RecoveryTime next = waits ? RecoveryTime::max() : agreement.deadline();
  if (agreement.unseen()) next = std::min(next, pair.state_at);
  const bool drains = phase == PairPhase::kDraining && pair.is_finished();
  const bool settled = phase > PairPhase::kDraining || (drains && !acts_for_data_path(state)) ||
                       (phase == PairPhase::kUsing && !pair.flushed_at);
  if (settled) return next;
  const RecoveryTime since = pair.lost_at.value_or(pair.flushed_at.value_or(pair.revived_at));
  return std::min(next, now + (now - since < kSeldomAfter ? kOften : kSeldom));
}

void update_deadline(RecoveryState& state, RecoveryTime now) {
  RecoveryTime next = RecoveryTime::max();
  for (const Pair& pair : state.pairs) {
    const bool is_asked_for = (state.asked_to_stop >> pair.rail & 1) != 0;
    if (!is_asked_for && is_stop_due(state, pair, now)) next = now;
    if (!state.link->failed()) next = std::min(next, deadline_of(state, pair, now));
  }
  if (!state.link->failed()) {
    // What the peer states comes by RDMA alone, and nothing wakes the watcher for it.
    if (state.link->deaf()) next = std::min(next, now + kSeldom);
    if (state.none_usable_since && !state.is_too_late(now)) {
      next = std::min(next, *state.none_usable_since + state.patience);
    }
  }
  const bool earlier = next < RecoveryTime(RecoveryTime::duration(state.deadline.load()));
  state.deadline.store(next.time_since_epoch().count(), std::memory_order_release);
  if (earlier) state.hooks.wake_watcher();
}

void advance_all(RecoveryState& state, RecoveryTime now) {
  lose_ports_that_are_down(state);
  for (Pair& pair : state.pairs) advance(state, pair, now);
  state_pairs(state, now);
  fail_if_none_is_left(state, now);
  log_losses(state, now);
  const bool news = std::ranges::any_of(state.pairs, [](const Pair& pair) {
    return pair.news().has_value() || pair.has_to_be_destroyed();
  });
  state.has_news.store(news, std::memory_order_release);
  await_empty_queues(state);
  state.set_attention();
}

// Nothing has to be taken over, and nothing but probes, statements and what was flushed is in the
// CQs, since no pair is usable. The data path takes the same news when it is called, as it does not
// know of them until then. A data path that is called has the time to take them itself.
void act_for_data_path(RecoveryState& state, RecoveryTime now) {
  for (Pair& pair : state.pairs) {
    const bool uses = pair.known == Known::kUsing || pair.known == Known::kLost;
    if (!uses || pair.missed || !pair.agreement.recovered()) continue;
    if (now - *pair.lost_at < kTimeToTakeNews) continue;
    pair.missed = {PairNews::Kind::kAgreed, pair.index, pair.agreement.epoch(),
                   pair.agreement.peer().arrived};
  }
  std::array<ibv_wc, 16> completions;  // the next tick takes what is left
  for (uint32_t rail = 0; rail < state.rails.size(); ++rail) {
    if (!state.queues.has(rail)) continue;
    ibv_cq* cq = state.io.rails()[rail].cq();
    const int count = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) {
      take_completion(state, decode_work_id(completions[i].wr_id), completions[i].status, now);
    }
  }
  take_steps(state, now);
}

}  // namespace

void take_steps(RecoveryState& state, RecoveryTime now) {
  if (state.closed || !state.recovers || state.link == nullptr) return;
  if (!state.link->failed()) advance_all(state, now);
  update_deadline(state, now);
}

// Why the path of a work request has failed: that the port is down explains what fails on it.
void take_completion(RecoveryState& state, const WorkId& id, ibv_wc_status status,
                     RecoveryTime now) {
  Pair& pair = state.pairs[id.pair];
  const bool is_own = id.kind == WorkKind::kProbe || id.kind == WorkKind::kStatement;
  if (!is_of_epoch(id, pair.agreement.epoch())) return;
  if (status == IBV_WC_SUCCESS) {
    if (is_own) on_own_write(state, id, now);
    return;
  }
  if (is_own) on_own_failure(state, id, status, now);
  const bool proof = id.kind == WorkKind::kProbe && id.ordinal == kStandbyProbe;
  if (status == IBV_WC_WR_FLUSH_ERR) {  // the cause is elsewhere
    if (!pair.flushed_at) pair.flushed_at = now;
  } else if (state.is_port_down(pair)) {
    pair.agreement.on_failure({wire::PairReason::kPortDown, status});
  } else {
    const auto reason = proof ? wire::PairReason::kProbe : wire::PairReason::kCompletion;
    pair.agreement.on_failure({reason, status});
  }
  // Receives complete in order, so that nothing has arrived behind it.
  if (id.kind == WorkKind::kReceive) {
    pair.flush_seen = true;
    ++pair.flushed;
  }
}

RecoverySteps::Due RecoverySteps::on_tick(RecoveryTime now) {
  std::lock_guard lock(state_.mutex);
  if (state_.closed || !state_.recovers) return {};
  if (!state_.link->failed()) read_statements(state_, now);
  take_steps(state_, now);
  if (acts_for_data_path(state_)) act_for_data_path(state_, now);
  Due due;
  for (const Pair& pair : state_.pairs) {
    const uint32_t rail = 1u << pair.rail;
    if (is_stop_due(state_, pair, now)) due.stops |= rail;
    if (is_revival_due(state_, pair, now)) due.revives |= rail;
    due.hcas[pair.rail] = state_.device(pair.rail).hca.get();
  }
  due.stops &= ~std::exchange(state_.asked_to_stop, state_.asked_to_stop | due.stops);
  due.revives &= ~std::exchange(state_.asked_to_revive, state_.asked_to_revive | due.revives);
  update_deadline(state_, now);
  return due;
}

void RecoverySteps::take_back(const Due& due) {
  std::lock_guard lock(state_.mutex);
  state_.asked_to_stop &= ~due.stops;
  state_.asked_to_revive &= ~due.revives;
}

void RecoverySteps::on_statement(const wire::PairStatement& statement) {
  report(state_, [&](RecoveryTime now) {
    if (state_.recovers) take_statement(state_, statement, now);
  });
}

void RecoverySteps::stop_pairs(uint32_t rails) {
  RecoveryLock lock(state_.mutex);
  state_.asked_to_stop &= ~rails;
  for (Pair& pair : state_.pairs) {
    if (state_.closed) return;
    if ((rails >> pair.rail & 1) == 0 || !is_stop_due(state_, pair, state_.now())) continue;
    stop_pair(state_, pair, lock);
    if (!state_.closed) take_steps(state_, state_.now());
  }
}

void RecoverySteps::revive_pairs(RecoveryTime now, uint32_t rails) {
  RecoveryLock lock(state_.mutex);
  state_.asked_to_revive &= ~rails;
  for (uint32_t rail = 0; rail < state_.rails.size() && !state_.closed; ++rail) {
    if ((rails >> rail & 1) != 0) transport::revive_pairs(state_, rail, now, lock);
  }
  if (!state_.closed) take_steps(state_, state_.now());
}

}  // namespace gdr::transport

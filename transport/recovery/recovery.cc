#include "transport/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "transport/recovery/recovery_parts.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {
namespace {

bool any_stands_by(const PairIo& io) {
  for (uint32_t i = 0; i < io.pair_count(); ++i) {
    if (io.at(i).standby) return true;
  }
  return false;
}

}  // namespace

RecoveryState::RecoveryState(PairIo its, bool both_recover, RecoveryHooks its_hooks)
    : io(std::move(its)),
      recovers(both_recover),
      hooks(std::move(its_hooks)),
      patience(time_without_pairs(io.options())),
      counters(std::make_unique<RailCounters[]>(io.rails().size())),
      arrivals(std::make_unique<PairArrivals[]>(io.pair_count())),
      queues(any_stands_by(io)),
      rails(io.rails().size()) {
  pairs.reserve(io.pair_count());
  for (uint32_t i = 0; i < io.pair_count(); ++i) {
    pairs.emplace_back(io, i, arrivals[i]);
    arrivals[i].receives = static_cast<uint64_t>(io.set_up().receives);
  }
}

bool RecoveryState::is_any_usable() const {
  return std::ranges::any_of(pairs, [](const Pair& pair) { return pair.agreement.usable(); });
}

bool RecoveryState::is_too_late(Clock::time_point now) const {
  return none_usable_since && now >= *none_usable_since + patience;
}

void RecoveryState::set_attention() {
  if (link == nullptr) return;
  link->set_recovering(has_news.load(std::memory_order_relaxed) || queues.awaited_empty() != 0);
}

void RecoveryState::fail(Code code, const std::string& what) const {
  link->fail_link(Error{code, link->description() + ": " + what}, true);
}

PairPhase RecoveryState::Pair::phase() const {
  if (agreement.usable()) return PairPhase::kUsing;
  if (!agreement.lost()) return PairPhase::kReturning;
  if (!is_stopped()) return PairPhase::kLosing;
  if (!agreement.recovered()) return PairPhase::kAgreeing;
  if (is_finished() && !may_return()) return PairPhase::kGivenUp;
  if (holder == Holder::kReviver) return PairPhase::kReviving;
  return is_finished() && rest == Rest::kNothing ? PairPhase::kResting : PairPhase::kDraining;
}

std::optional<PairNews::Kind> RecoveryState::Pair::news() const {
  const bool posts = known == Known::kUsing || known == Known::kReceives;
  const bool waits = known == Known::kFinished || known == Known::kReceives;
  if (posts && (agreement.lost() || missed)) return PairNews::Kind::kLost;
  if (known == Known::kLost && (agreement.recovered() || missed)) return PairNews::Kind::kAgreed;
  if (waits && agreement.usable()) return PairNews::Kind::kReturned;
  return {};
}

bool RecoveryState::Pair::may_return() const {
  const wire::PairReason there = agreement.peer().cause.reason;
  return outlook == Outlook::kReturns && there != wire::PairReason::kDeviceLost &&
         there != wire::PairReason::kWithdrawn;
}

void RecoveryState::Pair::give_up() {
  outlook = Outlook::kHopeless;
  stop_at = {};
  agreement.returns().set_port_active(false);
}

void RecoveryState::Pair::begin_epoch(Clock::time_point now) {
  holder = Holder::kDataPath;
  rest = Rest::kSome;
  flush_seen = counted = false;
  flushed = 0;
  reserved = 0;
  flushed_at.reset();
  lost_at.reset();
  revived_at = now;
}

void Recovery::begin(std::shared_ptr<PeerLink> link, const std::vector<LostAtStart>& lost) {
  const RecoveryTime now = state_.now();
  std::lock_guard lock(state_.mutex);
  state_.link = std::move(link);
  const PairIo& io = state_.io;
  for (Pair& pair : state_.pairs) {
    pair.agreement.on_connected(wire::port_address(io.rail_of(pair.index).address()),
                                wire::port_address(io.peer_rail(pair.index)));
  }
  for (const auto& [index, cause] : lost) {
    Pair& pair = state_.pairs[index];
    pair.agreement.on_failure(cause);
    if (cause.reason == wire::PairReason::kWithdrawn) withdraw(state_, pair, cause.sys_errno);
    if (io.has_queue_pair(index)) continue;
    pair.flush_seen = true;
    pair.give_up();
    on_stopped(state_, pair, now);
  }
  prove_standby(state_);
  if (!lost.empty()) take_steps(state_, now);
}

void Recovery::close() {
  std::unique_lock lock(state_.mutex);
  state_.closed = true;
  state_.unused.wait(lock, [this] { return state_.uses == 0; });
  state_.link.reset();
}

std::optional<PairNews> Recovery::next_news() {
  std::unique_lock lock(state_.mutex);
  for (Pair& pair : state_.pairs) {
    if (!pair.has_to_be_destroyed()) continue;
    destroy_pair(state_, pair, lock);
    take_steps(state_, state_.now());
  }
  for (Pair& pair : state_.pairs) {
    const std::optional<PairNews::Kind> kind = pair.news();
    if (!kind) continue;
    constexpr Known kKnown[] = {Known::kLost, Known::kAgreed, Known::kUsing};  // by PairNews::Kind
    pair.known = kKnown[static_cast<int>(*kind)];
    PairNews now{*kind, pair.index, pair.agreement.epoch(), pair.agreement.peer().arrived};
    if (pair.missed) now = {*kind, pair.index, pair.missed->epoch, pair.missed->arrived};
    return now;
  }
  state_.has_news.store(false, std::memory_order_release);
  state_.set_attention();
  return {};
}

void Recovery::on_early_data(uint32_t index) {
  report(state_, [&](RecoveryTime) {
    Known& known = state_.pairs[index].known;
    if (known == Known::kFinished) known = Known::kReceives;
  });
}

void Recovery::finish(uint32_t index) {
  report(state_, [&](RecoveryTime) {
    Pair& pair = state_.pairs[index];
    pair.known = Known::kFinished;
    pair.missed.reset();
  });
}

RailLoss Recovery::lost_pair(uint32_t pair) const {
  std::lock_guard lock(state_.mutex);
  return describe_loss(state_, state_.pairs[pair]);
}

void Recovery::on_failed_work(const WorkId& id, ibv_wc_status status) {
  report(state_, [&](RecoveryTime now) { take_completion(state_, id, status, now); });
}

void Recovery::on_failed_post(uint32_t index, uint32_t epoch) {
  report(state_, [&](RecoveryTime) {
    PairAgreement& agreement = state_.pairs[index].agreement;
    const bool is_present = ((agreement.epoch() ^ epoch) & PairArrivals::kEpochMask) == 0;
    if (is_present) agreement.on_failure({wire::PairReason::kPost});
  });
}

void Recovery::on_failed_flush(uint32_t rail, ibv_wc_status status) {
  report(state_, [&](RecoveryTime) {
    lose_rail(state_, rail, {wire::PairReason::kCompletion, status});
  });
}

void Recovery::on_failed_poll(uint32_t rail) {
  report(state_, [&](RecoveryTime) {
    give_up_rail(state_, rail);
    for (Pair& pair : state_.pairs) pair.flush_seen = pair.flush_seen || pair.rail == rail;
  });
}

void Recovery::on_late_chunks(uint32_t index, std::chrono::milliseconds lateness) const {
  const PairIo& io = state_.io;
  state_.hooks.rails->late(io.port_text(index), io.peer_text(index), lateness);
}

bool Recovery::probe_peer() {
  std::lock_guard lock(state_.mutex);
  return state_.closed || transport::probe_peer(state_);
}

// The data path, which is here, is the only one that posts and counts receives in an epoch.
void Recovery::on_consumed(uint32_t index) {
  report(state_, [&](RecoveryTime) {
    Pair& pair = state_.pairs[index];
    const uint64_t arrived = pair.arrivals.count.load(std::memory_order_relaxed);
    const uint64_t receives = pair.arrivals.receives.load(std::memory_order_relaxed);
    pair.flush_seen = pair.flush_seen || arrived == receives;
  });
}

void Recovery::on_empty_queue(uint32_t rail, uint32_t awaited) {
  report(state_, [&](RecoveryTime) { note_empty_queue(state_, rail, awaited); });
}

bool Recovery::on_lost_hca(uint32_t rail) {
  std::lock_guard lock(state_.mutex);
  if (state_.closed || !state_.recovers) return false;
  lose_hca(state_, *state_.device(rail).hca);
  take_steps(state_, state_.now());
  return state_.link != nullptr && !state_.link->failed();
}

// The rail is of no use without what could not be registered, so that it goes also where another
// one has yet to return.
bool Recovery::withdraw_rail(uint32_t rail, int err) {
  std::lock_guard lock(state_.mutex);
  const bool others = std::ranges::any_of(
      state_.pairs, [rail](const Pair& pair) { return pair.rail != rail && pair.may_return(); });
  if (state_.closed || !state_.recovers || !others) return false;
  for (Pair& pair : state_.pairs) {
    if (pair.rail == rail) withdraw(state_, pair, err);
  }
  take_steps(state_, state_.now());
  return true;
}

bool Recovery::has_queue_pair(uint32_t index) const {
  std::lock_guard lock(state_.mutex);
  return state_.io.has_queue_pair(index);
}

bool Recovery::is_given_up(uint32_t rail) const {
  std::lock_guard lock(state_.mutex);
  return std::ranges::none_of(state_.pairs, [rail](const Pair& pair) {
    return pair.rail == rail && pair.outlook == RecoveryState::Outlook::kReturns;
  });
}

}  // namespace gdr::transport

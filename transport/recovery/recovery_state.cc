#include "transport/recovery/recovery_state.h"

#include <algorithm>
#include <utility>

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

}  // namespace gdr::transport

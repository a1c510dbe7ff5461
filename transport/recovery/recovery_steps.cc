// The steps that a Recovery takes, with the mutex: which are due, when the next ones are, and what
// is logged about them.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;

// Work requests are flushed before the event or the completion that names the cause is seen.
constexpr milliseconds kCauseTime{20};
// How often the watcher looks after a recovery that is under way: at first, and after a while.
constexpr milliseconds kOften{10};
constexpr milliseconds kSeldom{100};
constexpr std::chrono::seconds kSeldomAfter{5};
// A loss is logged after this time even if its recovery is not finished.
constexpr milliseconds kLogAfter{1000};
// A rail that has not returned for so long is warned of where its port is active.
constexpr std::chrono::seconds kStaysLostAfter{60};

}  // namespace

Recovery::Due Recovery::on_tick(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (closed_ || !recovers_) return {};
  if (!link_->failed()) read_statements(now);
  run(now);
  if (acts_for_data_path()) act_for_data_path(now, lock);
  if (closed_) return {};
  uint32_t revives = claim_revivals(now);
  for (uint32_t pair : ports_to_query(now)) revives |= 1u << io_.rail(pair);
  Due due{claim_stops(now)};  // from here on nothing is allocated
  due.revives = revives & ~asked_to_revive_;
  asked_to_revive_ |= revives;
  for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
    due.hcas[rail] = io_.rails()[rail].device().hca.get();
  }
  update_deadline(now);
  return due;
}

void Recovery::take_back(const Due& due) {
  std::lock_guard lock(mutex_);
  for (const Due::Stop& stop : due.stops) pairs_[stop.pair].stopping = false;
  asked_to_revive_ &= ~due.revives;
}

// Takes every step that is due and does not block, and what follows from them. On a connection that
// has failed, only QPs are stopped.
void Recovery::run(Clock::time_point now) {
  if (closed_ || !recovers_ || link_ == nullptr) return;
  if (!link_->failed()) take_steps(now);
  update_deadline(now);
}

void Recovery::take_steps(Clock::time_point now) {
  lose_ports_that_are_down();
  for (uint32_t i = 0; i < pairs_.size(); ++i) advance(i, now);
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (is_statement_due(pairs_[i], now)) state(i, now);
  }
  fail_if_none_is_left(now);
  const bool news = std::ranges::any_of(pairs_, [](const Pair& pair) {
    return news_of(pair).has_value() || has_to_be_destroyed(pair);
  });
  has_news_.store(news, std::memory_order_release);
  await_empty_queues();
  set_attention();
}

void Recovery::advance(uint32_t index, Clock::time_point now) {
  Pair& pair = pairs_[index];
  PairAgreement& agreement = pair.agreement;
  if (pair.flushed_at && now - *pair.flushed_at >= kCauseTime) {
    agreement.on_failure({wire::PairReason::kCompletion, IBV_WC_WR_FLUSH_ERR});
  }
  if (agreement.next(now) == PairAction::kProbe) probe(index);
  if (agreement.awaits_probe()) agreement.on_peer_probed(io_.peer_probed(index));
  if (agreement.usable() && pair.logged) log_return(index);
  if (agreement.lost() && !pair.lost_at) note_loss(index, now);
  count_if_possible(index, now);
  if (agreement.recovered()) check_arrivals(index);
  if (is_finished(pair) && agreement.recovered()) {
    post_marker(index);
    if (is_drained(index)) agreement.on_data_path_done();
  }
  if (agreement.lost() && !pair.logged && now - *pair.lost_at >= kLogAfter) {
    log_loss(index, nullptr);
  }
}

void Recovery::note_loss(uint32_t index, Clock::time_point now) {
  Pair& pair = pairs_[index];
  pair.lost_at = now;
  if (peer_probe_on_ == index) peer_probe_on_.reset();
  if (pair.logged) {
    // It was not used since the last loss.
    const PairAgreement& lost = pair.agreement;
    const std::string text = failed_return_text(lost.cause(), lost.peer_cause());
    return log_failed_revival(index, {Code::kRemote, text}, now);
  }
  pair.unused_since = now;
  std::atomic<uint64_t>& losses = counters_[io_.rail(index)].losses;
  losses.store(losses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

Recovery::Clock::time_point Recovery::deadline_of(const Pair& pair, Clock::time_point now) const {
  const PairAgreement& agreement = pair.agreement;
  const bool waits = pair.reviving || is_too_late(now) || (agreement.lost() && !may_return(pair));
  Clock::time_point next = waits ? Clock::time_point::max() : agreement.deadline();
  if (agreement.unseen()) next = std::min(next, pair.state_at);
  const bool done = pair.drained || !may_return(pair) || !acts_for_data_path();
  const bool settled = agreement.lost() ? agreement.recovered() && is_finished(pair) && done
                                        : agreement.usable() && !pair.flushed_at;
  if (settled) return next;
  const Clock::time_point since = pair.lost_at.value_or(pair.flushed_at.value_or(pair.revived_at));
  return std::min(next, now + (now - since < kSeldomAfter ? kOften : kSeldom));
}

void Recovery::update_deadline(Clock::time_point now) {
  Clock::time_point next = Clock::time_point::max();
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (is_stop_due(i, now)) next = now;
  }
  if (!link_->failed()) {
    for (const Pair& pair : pairs_) next = std::min(next, deadline_of(pair, now));
    // What the peer states comes by RDMA alone, and nothing wakes the watcher for it.
    if (link_->deaf()) next = std::min(next, now + kSeldom);
    if (none_usable_since_ && now < *none_usable_since_ + patience_) {
      next = std::min(next, *none_usable_since_ + patience_);
    }
  }
  const bool earlier = next < deadline();
  deadline_.store(next.time_since_epoch().count(), std::memory_order_release);
  if (earlier) hooks_.wake_watcher();
}

// moved: null where that is not known yet. Where the connection has failed, its error says more.
void Recovery::log_loss(uint32_t index, const MovedWork* moved) {
  const bool nothing_new = moved == nullptr || *moved == MovedWork{};
  if (std::exchange(pairs_[index].logged, true) && nothing_new) return;
  if (link_->failed() && !is_any_usable()) return;
  GDR_TRACE(log::kNet, "%s: queue pair %u of %s failed: %s; moved: %s",
            link_->description().c_str(), index, io_.port_text(index).c_str(),
            to_string(pairs_[index].agreement.cause()).c_str(),
            moved == nullptr ? "not known yet" : to_string(*moved).c_str());
  const RailLoss loss = describe_loss(index, moved);
  hooks_.rail_lost(loss);
  if (hooks_.port_suspected) hooks_.port_suspected(loss.port);
  if (hooks_.address_suspected && blames_the_path(loss)) {
    const RailEnd& rail = io_.rails()[io_.rail(index)];
    hooks_.address_suspected(rail.device(),
                             at_address(rail.address(), pairs_[index].agreement.address()));
  }
}

RailLoss Recovery::describe_loss(uint32_t index, const MovedWork* moved) const {
  const PairAgreement& agreement = pairs_[index].agreement;
  RailLoss loss;
  loss.port = io_.port_text(index);
  loss.peer = io_.peer_text(index);
  loss.cause = agreement.cause();
  loss.peer_cause = agreement.peer_cause();
  // One that the connection had moved to is missed like any other.
  const bool carried = arrivals_[index].count.load(std::memory_order_relaxed) != 0;
  loss.stands_by = io_.stands_by(index) && !carried && (moved == nullptr || *moved == MovedWork{});
  loss.may_return = may_return(pairs_[index]);
  loss.usable = usable_ports(index);
  loss.settled = moved != nullptr;
  if (moved != nullptr) loss.moved = *moved;
  loss.waits = std::chrono::duration_cast<milliseconds>(patience_);
  loss.connection = this;
  if (loss.usable.empty()) {
    loss.effect = LossEffect::kWaits;
  } else if (is_explained(index)) {
    loss.effect = LossEffect::kExplained;
  }
  return loss;
}

// The ports of this end over which the connection goes on. Further pairs between the same two ports
// are lost soon.
std::vector<std::string> Recovery::usable_ports(uint32_t but) const {
  std::vector<std::string> active, standby, same;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (!pairs_[i].agreement.usable()) continue;
    const bool is_same = io_.path_text(i) == io_.path_text(but);
    const std::string port = io_.port_text(i) + (io_.stands_by(i) ? " (standby)" : "");
    std::vector<std::string>& to = is_same ? same : io_.stands_by(i) ? standby : active;
    if (std::ranges::find(to, port) == to.end()) to.push_back(port);
  }
  if (active.empty()) active = std::move(standby);
  return active.empty() ? same : active;
}

// Whether one of the ends has logged a warning of its own, which says more. This end's own cause
// may only follow from the peer's, as a probe to a QP that is not connected fails.
bool Recovery::is_explained(uint32_t index) const {
  const PairAgreement& agreement = pairs_[index].agreement;
  const wire::PairReason here = agreement.cause().reason;
  if (here == wire::PairReason::kWithdrawn) return true;
  const auto is_given_up = [](wire::PairReason reason) {
    return reason == wire::PairReason::kWithdrawn || reason == wire::PairReason::kNotConnected;
  };
  // Else the peer may have stated its cause for an earlier epoch.
  const bool peers = here == wire::PairReason::kPeer || agreement.recovered();
  return io_.stands_by(index) &&
         (is_given_up(here) || (peers && is_given_up(agreement.peer_cause().reason)));
}

// Once until the pair is used again: it is tried again and again. Where the peer's port is down,
// its loss has been logged with that.
void Recovery::log_failed_revival(uint32_t index, const Error& reason, Clock::time_point now) {
  Pair& pair = pairs_[index];
  const bool port_down = port_down_[io_.rail(index)] ||
                         (pair.agreement.peer_cause().reason == wire::PairReason::kPortDown &&
                          !pair.agreement.peer_is_ahead());
  if (hooks_.rail_stays_lost && !port_down && now - pair.unused_since >= kStaysLostAfter) {
    hooks_.rail_stays_lost(io_.port_text(index), io_.peer_text(index), reason);
  }
  if (std::exchange(pair.revival_logged, true)) return;
  GDR_INFO(log::kNet, "%s is not usable again yet: %s", io_.path_text(index).c_str(),
           reason.text.c_str());
}

void Recovery::log_return(uint32_t index) {
  pairs_[index].logged = pairs_[index].revival_logged = false;
  std::atomic<uint64_t>& returns = counters_[io_.rail(index)].returns;
  returns.store(returns.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  hooks_.rail_returned(io_.port_text(index), io_.peer_text(index));
}

}  // namespace gdr::transport

#include "transport/recovery/recovery.h"

#include <algorithm>
#include <utility>

#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {

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

void Recovery::finish(uint32_t index, bool has_lost) {
  report(state_, [&](RecoveryTime) {
    Pair& pair = state_.pairs[index];
    pair.known = Known::kFinished;
    if (std::exchange(pair.missed, {})) return;
    const uint64_t arrived = pair.agreement.peer().arrived;
    if (state_.sends()) pair.agreement.returns().on_taken_over(arrived, has_lost);
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
  std::unique_lock lock(state_.mutex);
  if (state_.closed) return;
  const std::string port = state_.io.port_text(index), peer = state_.io.peer_text(index);
  lock.unlock();  // what follows writes to the log
  if (state_.hooks.rail_late) state_.hooks.rail_late(port, peer, lateness);
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

void Recovery::on_failed_connection() {
  report(state_, [](RecoveryTime) {});
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

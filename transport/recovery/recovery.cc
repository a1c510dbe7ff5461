#include "transport/recovery/recovery.h"

#include <utility>

#include "transport/recovery/recovery_probes.h"

namespace gdr::transport {

Recovery::Recovery(PairIo io, bool recovers, RecoveryHooks hooks)
    : io_(std::move(io)),
      recovers_(recovers),
      hooks_(std::move(hooks)),
      patience_(time_without_pairs(io_.options())),
      counters_(std::make_unique<RailCounters[]>(io_.rails().size())),
      arrivals_(std::make_unique<Arrivals[]>(io_.pair_count())),
      port_down_(io_.rails().size()) {
  for (size_t i = 0; i < io_.pair_count(); ++i) {
    pairs_.emplace_back(PairAgreement(io_.end(), static_cast<uint16_t>(i)));
    arrivals_[i].receives = static_cast<uint64_t>(io_.receives());
    if (io_.stands_by(static_cast<uint32_t>(i))) uses_of_queues_ = 0;
  }
}

void Recovery::begin(std::shared_ptr<PeerLink> link, const std::vector<LostAtStart>& lost) {
  const Clock::time_point now = this->now();
  std::unique_lock lock(mutex_);
  link_ = std::move(link);
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i].agreement.on_connected(io_.first_address(i), io_.peer_first_address(i));
  }
  for (const auto& [index, cause] : lost) {
    pairs_[index].agreement.on_failure(cause);
    if (cause.reason == wire::PairReason::kWithdrawn) withdraw(index, cause.sys_errno);
    if (io_.has_queue_pair(index)) continue;
    pairs_[index].flush_seen = true;
    give_up(index);
    on_stopped(index, now);
  }
  prove_standby();
  if (!lost.empty()) run(now);
}

void Recovery::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  unused_.wait(lock, [this] { return uses_of_rails_ == 0; });
  link_.reset();
}

std::optional<PairNews> Recovery::next_news() {
  std::unique_lock lock(mutex_);
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (has_to_be_destroyed(pairs_[i])) destroy(i, lock);
  }
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    const std::optional<PairNews::Kind> kind = news_of(pair);
    if (!kind) continue;
    switch (*kind) {
      case PairNews::Kind::kLost:
        pair.known = Known::kLost;
        break;
      case PairNews::Kind::kAgreed:
        pair.known = Known::kAgreed;
        break;
      case PairNews::Kind::kReturned:
        pair.known = Known::kUsing;
        break;
    }
    PairNews now{*kind, i, pair.agreement.epoch(), pair.agreement.peer_arrived()};
    if (pair.missed) now = {*kind, i, pair.missed->epoch, pair.missed->arrived};
    return now;
  }
  has_news_.store(false, std::memory_order_release);
  set_attention();
  return {};
}

// Where that is not set, a connection with one active rail takes no look at anything else.
void Recovery::set_attention() {
  if (link_ == nullptr) return;
  link_->set_recovering(has_news_.load(std::memory_order_relaxed) ||
                        awaits_empty_.load(std::memory_order_relaxed) != 0);
}

std::optional<PairNews::Kind> Recovery::news_of(const Pair& pair) {
  const PairAgreement& agreement = pair.agreement;
  const bool uses = pair.known == Known::kUsing || pair.known == Known::kReceives;
  const bool waits = pair.known == Known::kFinished || pair.known == Known::kReceives;
  if (uses && (agreement.lost() || pair.missed)) return PairNews::Kind::kLost;
  if (pair.known == Known::kLost && (agreement.recovered() || pair.missed)) {
    return PairNews::Kind::kAgreed;
  }
  if (waits && agreement.usable()) return PairNews::Kind::kReturned;
  return {};
}

void Recovery::on_early_data(uint32_t index) {
  std::lock_guard lock(mutex_);
  Pair& pair = pairs_[index];
  if (closed_ || pair.known != Known::kFinished) return;
  pair.known = Known::kReceives;
  run(now());
}

void Recovery::finish(uint32_t index, const MovedWork& moved) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  Pair& pair = pairs_[index];
  pair.known = Known::kFinished;
  if (!pair.missed) {
    pair.agreement.on_taken_over(moved.chunks > 0);
    log_loss(index, &moved);
  }
  pair.missed.reset();
  run(now());
}

// Why the path of a work request has failed. That the port is down explains what fails on it.
wire::PairReason Recovery::reason_of(const WorkId& id) const {
  if (port_down_[io_.rail(id.pair)]) return wire::PairReason::kPortDown;
  const bool proof = id.kind == WorkKind::kProbe && id.ordinal == kStandbyProbe;
  return proof ? wire::PairReason::kProbe : wire::PairReason::kCompletion;
}

void Recovery::on_failed_work(const WorkId& id, ibv_wc_status status) {
  const Clock::time_point now = this->now();
  std::lock_guard lock(mutex_);
  Pair& pair = pairs_[id.pair];
  if (closed_ || !is_of_epoch(id, pair.agreement.epoch())) return;
  if (id.kind == WorkKind::kProbe && id.ordinal == kReturnProbe) {
    pair.agreement.on_probe_completed(status, now);
  } else if (id.kind == WorkKind::kProbe && id.ordinal == kMarker) {
    pair.marker_seen = true;
  } else if (id.kind == WorkKind::kProbe && id.ordinal == kPeerProbe) {
    peer_probe_on_.reset();
  } else if (id.kind == WorkKind::kStatement) {
    end_statement(id);
  }
  if (classify_failure(status) != FailureClass::kConsequence) {
    pair.agreement.on_failure({reason_of(id), status});
  } else if (!pair.flushed_at) {
    pair.flushed_at = now;
  }
  // Receives complete in order, so that nothing has arrived behind it.
  if (id.kind == WorkKind::kReceive) {
    pair.flush_seen = true;
    ++pair.flushed;
  }
  run(now);
}

void Recovery::on_failed_post(uint32_t index, uint32_t epoch) {
  std::lock_guard lock(mutex_);
  PairAgreement& agreement = pairs_[index].agreement;
  if (closed_ || (agreement.epoch() & kEpochMask) != (epoch & kEpochMask)) return;
  agreement.on_failure({wire::PairReason::kPost});
  run(now());
}

void Recovery::on_failed_flush(uint32_t rail, ibv_wc_status status) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  lose_rail(rail, {wire::PairReason::kCompletion, status});
  run(now());
}

void Recovery::on_late_chunks(uint32_t index, std::chrono::milliseconds lateness) const {
  std::unique_lock lock(mutex_);
  if (closed_) return;
  const std::string port = io_.port_text(index), peer = io_.peer_text(index);
  lock.unlock();  // what follows writes to the log
  if (hooks_.rail_late) hooks_.rail_late(port, peer, lateness);
  if (hooks_.port_suspected) hooks_.port_suspected(port);
}

void Recovery::on_failed_poll(uint32_t rail) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  give_up_rail(rail);
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail) pairs_[i].flush_seen = true;
  }
  run(now());
}

bool Recovery::on_lost_hca(uint32_t rail) {
  std::lock_guard lock(mutex_);
  if (closed_ || !recovers_) return false;
  lose_hca(*io_.rails()[rail].device().hca);
  run(now());
  return link_ != nullptr && !link_->failed();
}

// The rail is of no use without what could not be registered, so that it goes also where another
// one has yet to return.
bool Recovery::withdraw_rail(uint32_t rail, int err) {
  std::lock_guard lock(mutex_);
  bool others = false;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    others = others || (io_.rail(i) != rail && may_return(pairs_[i]));
  }
  if (closed_ || !recovers_ || !others) return false;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail) withdraw(i, err);
  }
  run(now());
  return true;
}

void Recovery::withdraw(uint32_t index, int err) {
  pairs_[index].agreement.set_port_active(false);
  pairs_[index].withdrawn = true;
  lose_for_good(index, {.reason = wire::PairReason::kWithdrawn, .sys_errno = err});
}

bool Recovery::is_given_up(uint32_t rail) const {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (io_.rail(i) == rail && !pairs_[i].hopeless && !pairs_[i].withdrawn) return false;
  }
  return true;
}

void Recovery::on_written(const WorkId& id) {
  const Clock::time_point now = this->now();
  std::lock_guard lock(mutex_);
  Pair& pair = pairs_[id.pair];
  if (closed_ || !is_of_epoch(id, pair.agreement.epoch())) return;
  --pair.reserved;
  if (id.kind == WorkKind::kStatement) end_statement(id);
  if (id.kind != WorkKind::kProbe || id.ordinal == kStandbyProbe) return;
  if (id.ordinal == kPeerProbe) {
    link_->end_probe();
    peer_probe_on_.reset();
  } else {
    --pair.reserved;  // it is two writes
    pair.agreement.on_probe_completed(IBV_WC_SUCCESS, now);
    run(now);
  }
}

}  // namespace gdr::transport

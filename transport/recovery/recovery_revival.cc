// How a Recovery brings pairs that were lost back.
#include "transport/recovery/recovery.h"
#include "transport/recovery/slow_paths.h"

namespace gdr::transport {

// Returns for which rails revive_pairs() has pairs to revive. Until it has, a pair that is due has
// no deadline.
uint32_t Recovery::claim_revivals(Clock::time_point now) {
  if (link_->failed() || is_too_late(now)) return 0;
  uint32_t due = 0;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    if (may_return(pair) && pair.agreement.next(now) == PairAction::kRevive) pair.reviving = true;
    if (pair.reviving) due |= 1u << io_.rail(i);
  }
  return due;
}

void Recovery::revive_pairs(Clock::time_point now, SlowPaths& slow, uint32_t rails) {
  std::unique_lock lock(mutex_);
  asked_to_revive_ &= ~rails;
  if (!closed_) query_ports(now, rails, lock);
  for (uint32_t i = 0; i < pairs_.size() && !closed_; ++i) {
    if (!pairs_[i].reviving || (rails >> io_.rail(i) & 1) == 0) continue;
    if (may_revive(i, now, slow, lock)) revive(i, now, slow, lock);
    pairs_[i].reviving = false;
  }
  if (!closed_) run(this->now());
}

bool Recovery::may_revive(uint32_t index, Clock::time_point now, const SlowPaths& slow,
                          std::unique_lock<std::mutex>& lock) {
  PairAgreement& agreement = pairs_[index].agreement;
  if (link_->failed() || agreement.next(now) != PairAction::kRevive) return false;
  const std::optional<bool> active = query_port(index, lock);
  if (!active || link_->failed() || agreement.next(now) != PairAction::kRevive) return false;
  if (!*active) {
    agreement.set_port_active(false);
    return false;
  }
  if (!is_most_likely_in_vain(index, now, slow)) return true;
  agreement.on_revival_put_off(now);
  return false;
}

// What another attempt has shown spares this one, but not where the peer has resolved this end's
// address since. A connection without a usable pair makes the attempt sooner.
bool Recovery::is_most_likely_in_vain(uint32_t index, Clock::time_point now,
                                      const SlowPaths& slow) const {
  const PairAgreement& agreement = pairs_[index].agreement;
  const bool urgent = !is_any_usable();
  if (agreement.peer_waits()) return false;
  if (slow.is_paused(io_.path_text(index), now, urgent)) return true;
  return !urgent && !agreement.peer_is_ahead() &&
         io_.is_held_unreachable(index, agreement.peer_address());
}

void Recovery::revive(uint32_t index, Clock::time_point now, SlowPaths& slow,
                      std::unique_lock<std::mutex>& lock) {
  const Clock::time_point began = Clock::now();
  const wire::PortAddress peer = pairs_[index].agreement.peer_address();
  const Result<wire::PortAddress> revived = connect_again(index, peer, lock);
  if (closed_) return;
  Pair& pair = pairs_[index];
  const Clock::duration took = Clock::now() - began;
  if (!revived) {
    slow.on_failure(io_.path_text(index), now + took, took);
    log_failed_revival(index, revived.error(), now + took);
    return pair.agreement.on_revival_failed(now + took);
  }
  slow.on_success(io_.path_text(index));
  // In the meantime its HCA or its port may have gone, or the connection may have failed.
  if (link_->failed() || pair.agreement.next(Clock::time_point::max()) != PairAction::kRevive) {
    return stop_again(index, lock);
  }
  pair.agreement.on_connected(*revived, peer);
  pair.agreement.on_revived();
  pair.stopped = pair.flush_seen = pair.counted = false;
  pair.drained = pair.marker_posted = pair.marker_seen = false;
  pair.flushed = 0;
  pair.flushed_at.reset();
  pair.lost_at.reset();
  pair.revived_at = now + took;
  pair.reserved = 0;
}

// The QP is used without the mutex, since the kernel may take seconds to resolve an address;
// nothing else uses it then: the data path has finished with it, and close() waits.
Result<wire::PortAddress> Recovery::connect_again(uint32_t index, const wire::PortAddress& peer,
                                                  std::unique_lock<std::mutex>& lock) {
  const uint32_t epoch = pairs_[index].agreement.epoch() + 1;
  const UseOfRails use(this, &lock);
  arrivals_[index].count.store(0, std::memory_order_relaxed);
  arrivals_[index].receives.store(static_cast<uint64_t>(io_.receives()), std::memory_order_relaxed);
  arrivals_[index].stopped.store(false, std::memory_order_relaxed);
  arrivals_[index].epoch.store(epoch & kEpochMask, std::memory_order_release);
  return io_.revive(index, epoch, peer);
}

// A QP in RESET flushes nothing. Where the HCA refuses, that does no harm: the peer sends nothing
// before this end has stated that the pair is ready, and the next attempt begins with RESET.
void Recovery::stop_again(uint32_t index, std::unique_lock<std::mutex>& lock) {
  arrivals_[index].epoch.store(kCounted, std::memory_order_release);
  const UseOfRails use(this, &lock);
  (void)io_.reset(index);
}

}  // namespace gdr::transport

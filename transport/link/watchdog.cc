#include "transport/link/watchdog.h"

#include <set>

#include "base/log.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
bool Watchdog::episode_lasts(Clock::time_point now) const {
  if (logged_at_ && now - *logged_at_ < limit_) return true;
  const std::shared_ptr<PeerLink> link = logged_.lock();
  return link != nullptr && link->stalled_since() == logged_stall_;
}

bool Watchdog::check(const std::vector<std::shared_ptr<PeerLink>>& links, Clock::time_point now) {
  if (limit_.count() == 0) return false;
  // Links that wait for the same rank stall at about the same time, not at the same.
  const std::chrono::milliseconds counts_from = std::chrono::milliseconds(limit_) / 2;
  std::shared_ptr<PeerLink> oldest;
  size_t stalled = 0;
  std::set<PeerProcess> peers;
  for (const std::shared_ptr<PeerLink>& link : links) {
    const std::optional<Clock::time_point> since = link->stalled_since();
    if (!since || now - *since < counts_from) continue;
    ++stalled;
    peers.insert(link->peer());
    if (oldest == nullptr || *since < *oldest->stalled_since()) oldest = link;
  }
  if (oldest == nullptr || now - *oldest->stalled_since() < limit_ || episode_lasts(now)) {
    return false;
  }
  logged_ = oldest;
  logged_stall_ = oldest->stalled_since();
  logged_at_ = now;
  std::string others;
  if (stalled > 1) {
    others = "; so do " + counted(stalled - 1, "other connection") + ", with " +
             counted(peers.size(), "peer process", "es") + " in all";
  }
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - *logged_stall_);
  GDR_WARN(
      "watchdog: %s: no progress for %lld s with %s; %s%s. The peer's state follows, unless that "
      "process is stopped, its host hangs, or the handshake's network is interrupted. Fix then: "
      "look at its state (ps, dmesg) on that host",
      oldest->description().c_str(), static_cast<long long>(waited.count()),
      to_string(oldest->peer()).c_str(), oldest->state_text().c_str(), others.c_str());
  oldest->query_peer();
  return true;
}

}  // namespace gdr::transport

// The watchdog: finds connections whose requests make no progress, and logs them in one line.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "transport/link/peer_link.h"

namespace gdr::transport {

// A rank that is late stalls every connection of every other rank, which is normal while it writes
// a checkpoint. So a process logs one line for an episode: the connection that has waited longest,
// in full, and how many others wait; and asks that peer alone for its state. The episode ends when
// that connection moves on. Not thread-safe: the watcher's thread uses it.
class Watchdog {
 public:
  using Clock = PeerLink::Clock;

  // limit: the time without progress after which a stall is logged; 0 turns that off.
  explicit Watchdog(std::chrono::seconds limit) : limit_(limit) {}

  // Called about once a second, after PeerLink::on_tick of all links. Returns whether it has logged
  // a stall.
  bool check(const std::vector<std::shared_ptr<PeerLink>>& links, Clock::time_point now);

 private:
  bool episode_lasts(Clock::time_point now) const;

  const std::chrono::seconds limit_;
  std::weak_ptr<PeerLink> logged_;                 // of the episode
  std::optional<Clock::time_point> logged_stall_;  // since when it had made no progress
  std::optional<Clock::time_point> logged_at_;
};

}  // namespace gdr::transport

// The log lines about connections that fail, lose their handshake socket or stall: one warning for
// each cause, not one for each of the connections that it concerns.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/link/peer_link.h"

namespace gdr::transport {

// One warning a minute for each cause, whatever it says, and one more where things get worse. Those
// between are left out (INFO lines) and counted. Thread-safe.
class Episodes {
 public:
  static constexpr std::chrono::minutes kMinute{1};
  static constexpr Clock::duration kForGood = Clock::duration::max();

  // A warning of that cause is due. Nothing: it is left out. Else how many were since the last one.
  // severity: a greater one than that of the last warning is not left out. counts: it is not only
  // another effect of what has been counted already.
  std::optional<int> warn(const std::string& cause, Clock::time_point now, int severity = 0,
                          bool counts = true, Clock::duration pause = kMinute);

 private:
  struct Episode {
    Clock::time_point warned_at;
    int severity;
    Clock::duration pause;
    int left_out = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Episode> episodes_;  // by cause; guarded by mutex_
};

// The severity of a port that takes the last rail of a connection: LossEffect::kWaits.
inline constexpr int kWorstOfAPort = 3;

// A warning, or an INFO line where that is left out, with the place of the caller.
void write_line(bool warning, const std::string& text, const char* file = __builtin_FILE(),
                int line = __builtin_LINE());

// "; it happened 5 more times since the last warning"; "" for 0.
std::string left_out_text(int left_out);

// "1 connection", "2 connections", "3 peer processes" (plural "es").
std::string counted(size_t count, const std::string& what, const char* plural = "s");

// Decides what is a warning (Episodes), and writes the lines. Thread-safe; used only where
// something has failed.
class FailureLog {
 public:
  using Clock = PeerLink::Clock;

  explicit FailureLog(Episodes& episodes) : episodes_(episodes) {}

  // A call of NCCL's returned the failure of a link. Failures that came from the peer are one
  // episode per peer process, others one per text.
  void link_failed(const PeerLink& link, Clock::time_point now);
  // The handshake socket of a connection ended without its peer's being gone. One episode per host.
  void path_lost(const PeerLink& link, Clock::time_point now);
  // "mlx5_0 reports ...; it happened 5 more times since the last warning; fails 3 connections".
  void warn(const std::string& cause, const std::string& what, const std::string& effect,
            Clock::time_point now, int severity = 0);
  // A warning of a connection that others share: once for each cause, for good.
  void warn_once(const std::string& cause, const std::string& text);

 private:
  Episodes& episodes_;
};

// The watchdog: finds connections whose requests make no progress, and logs them in one line.
//
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

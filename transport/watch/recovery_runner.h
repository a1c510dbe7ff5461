// When the recoveries of all connections run, and in which threads what may block of them.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>

#include "transport/recovery/blocking_calls.h"
#include "transport/recovery/recovery.h"
#include "transport/watch/watched_links.h"

namespace gdr::transport {

// Used by the watcher's thread, but for note_change().
class RecoveryRunner {
 public:
  using Clock = PeerLink::Clock;

  // links outlives it, as does what the recoveries' hooks use.
  explicit RecoveryRunner(const WatchedLinks& links) : links_(links) {}

  // The deadline of a recovery has come nearer. Any thread.
  void note_change() { changed_.store(true, std::memory_order_release); }
  // Runs those that have something due.
  void run_due(Clock::time_point now) {
    const bool changed = changed_.exchange(false, std::memory_order_acq_rel);
    if (changed || now >= next_) tick(now, /*all=*/false);
  }
  // all: also those that have nothing due, so that they look at what the peer has written.
  void tick(Clock::time_point now, bool all);
  Clock::time_point deadline() const { return next_; }

 private:
  void have_made(const std::shared_ptr<Recovery>& recovery, RecoverySteps::Due due);

  const WatchedLinks& links_;
  std::atomic<bool> changed_{false};
  Clock::time_point next_ = Clock::time_point::max();
  // Threads of their own. One stops queue pairs of each HCA, and one revives them, so that none
  // waits for the firmware of another.
  std::map<const HcaContext*, BlockingCalls> revivers_, stoppers_;
};

}  // namespace gdr::transport

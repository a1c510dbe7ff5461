// The links that a watcher looks after, and when their recoveries run.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/link/peer_link.h"
#include "transport/recovery/blocking_calls.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// What an asynchronous event of an HCA may concern: a CQ, a QP, or an ibv_context, of which `port`
// is one of its ports; 0: the whole HCA.
struct EventSource {
  const void* object;
  int port = 0;

  bool operator==(const EventSource&) const = default;
};

struct WatchedLink {
  std::shared_ptr<PeerLink> link;
  std::vector<EventSource> sources;    // the HCAs, ports and CQs of its connection
  std::shared_ptr<Recovery> recovery;  // null: none deals with what is lost
};

// Thread-safe. What it returns holds references of its own.
class WatchedLinks {
 public:
  void add(WatchedLink watched);
  void remove(const PeerLink& link);
  // Of that socket; null: there is none.
  std::shared_ptr<PeerLink> find(int fd) const;
  std::vector<std::shared_ptr<PeerLink>> all() const;
  std::vector<std::shared_ptr<Recovery>> recoveries() const;
  // Those whose connections have the source.
  std::vector<WatchedLink> with(const EventSource& source) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, WatchedLink> links_;  // by socket; guarded by mutex_
};

// Runs the recoveries of all links, in threads of its own what may block of them. Used by the
// watcher's thread, but for note_change().
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

// The links that a watcher looks after, and when their recoveries run.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/link/peer_link.h"
#include "transport/recovery/blocking_calls.h"
#include "transport/recovery/recovery.h"

namespace gdr::transport {

// A port of this process.
struct RailName {
  std::string hca;  // "mlx5_0"
  int port = 0;
  auto operator<=>(const RailName&) const = default;
};

// The data that went over one port.
struct RailSums {
  struct Moved {
    uint64_t bytes = 0;
    uint64_t messages = 0;  // RDMA messages: a message of NCCL's, or each chunk of a split one
  };
  Moved sent, received;
  uint64_t losses = 0;   // of queue pairs that recover
  uint64_t returns = 0;  // of those to use
};

// What all connections of a process have moved since its transport was made, for metrics: sums that
// never decrease, also where connections close.
struct ProcessSums {
  uint64_t connections = 0;            // that are open now
  uint64_t failed = 0;                 // connections, so far
  uint64_t stalls = 0;                 // episodes that the watchdog has logged
  std::map<RailName, RailSums> rails;  // those of connections, open or closed
};

// What asynchronous events of an HCA may concern of a connection.
struct WatchedRail {
  std::shared_ptr<HcaContext> hca;
  RailName name;
  const ibv_cq* cq = nullptr;
};

struct WatchedLink {
  std::shared_ptr<PeerLink> link;
  std::vector<WatchedRail> rails{};      // of its connection
  std::shared_ptr<Recovery> recovery{};  // null: none deals with what is lost
  bool sends = false;
};

// Thread-safe. What it returns holds references of its own.
class WatchedLinks {
 public:
  void add(WatchedLink watched);
  // Takes what its connection has counted for good. Allocates nothing.
  void remove(const PeerLink& link);
  // Of that socket; null: there is none.
  std::shared_ptr<PeerLink> find(int fd) const;
  std::vector<std::shared_ptr<PeerLink>> all() const;
  std::vector<std::shared_ptr<Recovery>> recoveries() const;
  // Those of whose rails one is concerned.
  std::vector<WatchedLink> with(
      const std::function<bool(const WatchedRail& rail)>& is_concerned) const;
  size_t size() const;
  // Reads what the data path counts, which does not come by.
  ProcessSums sums() const;

 private:
  static void add(const WatchedLink& watched, ProcessSums* sums);

  mutable std::mutex mutex_;          // guards all that follows
  std::map<int, WatchedLink> links_;  // by socket
  ProcessSums closed_;                // of links that were removed; the rails of all
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

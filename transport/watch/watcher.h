// The one background thread of the transport. It watches the sockets of all connections (frames of
// the peers, and peers that went away), the asynchronous events of the HCAs, and connections
// without progress. It touches the data path by failing a link (PeerLink::fail_link), by asking
// for a probe, and through the Recovery of a connection.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/device/hca.h"
#include "transport/link/failure_log.h"
#include "transport/link/peer_link.h"
#include "transport/link/reopening.h"
#include "transport/pairs/unreachable_paths.h"
#include "transport/recovery/blocking_calls.h"
#include "transport/recovery/rail_log.h"
#include "transport/recovery/recovery.h"
#include "transport/watch/room_maker.h"
#include "transport/watch/watched_links.h"

namespace gdr::transport {

// Owns the background thread; one per Transport. Its public functions may be called from any
// thread.
class Watcher {
 public:
  // Starts the thread. watchdog: seconds without progress after which a connection is logged; 0
  // turns that off. events_fail: fatal events of HCAs fail the connections that they concern;
  // otherwise they are only logged (NCCL_IB_RETURN_ASYNC_EVENTS). address: of this host, where
  // peers may open kept sockets again; of no family: not at all.
  static Result<std::unique_ptr<Watcher>> start(std::chrono::seconds watchdog,
                                                bool events_fail = true,
                                                const sockaddr_storage& address = {});
  // Stops the thread and waits for its end.
  ~Watcher();

  // Watches a link. A fatal event of a rail's HCA or CQ, or of a QP over such a CQ, fails the link,
  // unless its recovery deals with it.
  void add(WatchedLink watched);
  // Stops watching a link. The thread may still be inside a last callback, which holds a reference
  // of its own.
  void remove(const PeerLink* link);
  // Watches the asynchronous events of an HCA, for as long as the watcher lives.
  void add_hca(const std::shared_ptr<HcaContext>& hca);
  // Has `task` called about once a second by the watcher's thread, for as long as that runs. It
  // must not block.
  void each_second(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  // Has a call made that may block, in a thread for such calls.
  void call(std::function<void()> call) { caller_.add(std::move(call)); }
  // The TCP port where peers open kept sockets again; 0: none.
  uint16_t reopen_port() const { return reopen_port_.port(); }
  // For the Recovery of a connection. Not longer than the watcher lives.
  RecoveryHooks recovery_hooks();
  // What connections share that standby pairs may give up.
  RoomMaker& room() { return room_; }
  // Warnings and lines that connections share.
  FailureLog& failures() { return failures_; }
  RailLog& rails() { return rails_; }
  // What the connections of the process have found out.
  UnreachablePaths& unreachable_paths() { return unreachable_paths_; }
  // What all connections have moved, and what happened to them.
  ProcessSums sums() const;
  size_t connections() const { return links_.size(); }

 private:
  using Clock = PeerLink::Clock;

  Watcher(UniqueFd epoll, UniqueFd wake, ListeningSocket reopen, std::chrono::seconds watchdog,
          bool events_fail);
  void run();
  bool run_once();
  int wait_milliseconds() const;
  void on_ready(int fd, bool has_ended = false);
  void take_reopened(Clock::time_point now);
  void watch_fd(int fd, uint32_t events = EPOLLIN);
  void leave_fd(int fd);
  void wake_up();
  void tick(Clock::time_point now);
  // In hca_events.cc: hand each asynchronous event of an HCA to the connections that it concerns,
  // and log it. has_ended: of its descriptor. The first one reads an event, if there is one, and
  // returns false once the HCA reports nothing any more.
  bool read_event(const HcaContext& hca, bool has_ended);
  void take_event(const HcaContext& hca, const ibv_async_event& event, const std::string& what);
  void take_fatal(const HcaContext& hca, const ibv_async_event& event, const std::string& text);
  void take_port(const HcaContext& hca, const ibv_async_event& event, const std::string& text);

  const UniqueFd epoll_;
  const UniqueFd wake_;  // an eventfd; readable: something is due, or the thread is to stop
  Episodes episodes_;
  FailureLog failures_{episodes_};
  RailLog rails_{episodes_};
  UnreachablePaths unreachable_paths_;
  WatchedLinks links_;
  std::atomic<uint64_t> stalls_{0};
  RoomMaker room_{links_, failures_};
  std::mutex mutex_;  // guards stopping_, hcas_, polled_ and task_
  bool stopping_ = false;
  std::map<int, std::shared_ptr<HcaContext>> hcas_;  // by async fd
  std::set<int> polled_;                             // descriptors that epoll refused
  std::function<void()> task_;                       // of each_second()
  // Watcher thread only. The deadlines are kept, so that a wake-up does not look at every link:
  // while a job starts, there is one for each connection.
  Watchdog watchdog_;
  Clock::time_point next_tick_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();
  ReopenPort reopen_port_;
  const bool events_fail_;
  // Threads of their own, which end before all above that they use.
  BlockingCalls caller_{"gdr-caller"};
  RecoveryRunner recoveries_{links_};
  std::thread thread_;
};

}  // namespace gdr::transport

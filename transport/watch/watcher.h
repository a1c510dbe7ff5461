// The one background thread of the transport. It watches the sockets of all connections (frames of
// the peers, and peers that went away), the asynchronous events of the HCAs, and connections
// without progress. It touches the data path by failing a link (PeerLink::fail_link), by asking
// for a probe, and through the Recovery of a connection.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/device/hca.h"
#include "transport/device/moved_counters.h"
#include "transport/link/episodes.h"
#include "transport/link/failure_log.h"
#include "transport/link/peer_link.h"
#include "transport/link/rail_use.h"
#include "transport/link/reopen_port.h"
#include "transport/link/watchdog.h"
#include "transport/pairs/unreachable_paths.h"
#include "transport/recovery/blocking_calls.h"
#include "transport/recovery/recovery.h"
#include "transport/recovery/slow_paths.h"
#include "transport/watch/process_counters.h"
#include "transport/watch/rail_log.h"

namespace gdr::transport {

// What an asynchronous event of an HCA may concern: a CQ, a QP, or an ibv_context, of which `port`
// is one of its ports; 0: the whole HCA.
struct EventSource {
  const void* object;
  int port = 0;

  bool operator==(const EventSource&) const = default;
};

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

  // Watches a link. sources: the HCAs, ports and CQs of its connection; a fatal event of one, or of
  // a QP over such a CQ, fails the link, unless `recovery`, which may be null, deals with it.
  void add(const std::shared_ptr<PeerLink>& link, std::vector<EventSource> sources,
           std::shared_ptr<Recovery> recovery = nullptr);
  // Stops watching a link. The thread may still be inside a last callback, which holds a reference
  // of its own.
  void remove(const PeerLink* link);
  // Watches the asynchronous events of an HCA, for as long as the watcher lives.
  void add_hca(const std::shared_ptr<HcaContext>& hca);
  // Has `task` called about once a second by the watcher's thread, until it returns false. It must
  // not block.
  void each_second(std::function<bool()> task);
  // Has a call made that may block, in a thread for such calls.
  void call(std::function<void()> call) { caller_.add(std::move(call)); }
  // Destroys what may block to destroy.
  void destroy(std::vector<std::shared_ptr<void>> held) {
    call([held = std::move(held)] {});
  }
  // The TCP port where peers open kept sockets again; 0: none.
  uint16_t reopen_port() const { return reopen_port_.port(); }
  // Logs the failure of a link that a call of NCCL's returns: as a warning for the first connection
  // with a peer process.
  void log_failure(const PeerLink& link);
  // For the Recovery of a connection. Not longer than the watcher lives.
  RecoveryHooks recovery_hooks();
  // Has a connection destroy the QP of a standby pair, which is on that HCA or else, if elsewhere,
  // on any, since something that another connection needs could not be created: `lack`, for a
  // warning. Waits for a second at most where the connections are busy. Returns where one was
  // destroyed.
  enum class RoomOn : uint8_t { kNone, kSameHca, kOtherHca };
  RoomOn make_room(const HcaContext& hca, const std::string& lack, bool waits, bool elsewhere);
  // Checks that the process may lock so many bytes beside what connections with standby rails take,
  // by a registration, at the first call, at each eighth, and again at the next after it has
  // failed. The error is ENOMEM.
  Status check_spare_memory(const HcaContext& hca, size_t bytes);
  // See FailureLog.
  void warn_once(const std::string& cause, const std::string& text) {
    failures_.warn_once(cause, text);
  }
  // RailLog::warn_of, for `rail` at `device`.
  void warn_of_rail(const std::string& cause, const Device& device, const std::string& rail,
                    const std::string& text);
  // Has it found out whether the port still has an address that connections were made with, which
  // is warned of where it does not. Returns what is ready, or broken, when that is done.
  std::future<void> check_address(const Device& device, const wire::RailAddress& address);
  // FailureLog::note_once.
  void note_once(const std::string& cause, const std::string& text) {
    failures_.note_once(cause, text);
  }
  // What the connections of the process have found out.
  UnreachablePaths& unreachable_paths() { return unreachable_paths_; }
  // What the connections of several rails have moved.
  RailTotals& rail_totals() { return rail_totals_; }
  // What all connections have moved, and what happened to them.
  ProcessCounters& process_counters() { return process_counters_; }
  // The hardware counters of the ports that connections use. Those that move where a rail is lost
  // are logged by the watcher's thread.
  MovedCounters& moved_counters() { return moved_counters_; }

 private:
  struct Watched {
    std::shared_ptr<PeerLink> link;
    std::vector<EventSource> sources;
    std::shared_ptr<Recovery> recovery;  // null: of a connection of one rail
  };

  using Clock = PeerLink::Clock;

  Watcher(UniqueFd epoll, UniqueFd wake, ListeningSocket reopen, std::chrono::seconds watchdog,
          bool events_fail);
  void run();
  bool run_once();
  int wait_milliseconds();
  void on_ready(int fd, bool has_ended = false);
  void take_reopened(Clock::time_point now);
  std::shared_ptr<PeerLink> find(const wire::EndProof& proof);
  bool on_hca_event(const HcaContext& hca, bool has_ended);
  void take_event(const HcaContext& hca, const ibv_async_event& event, const std::string& what);
  void on_fatal_event(const HcaContext& hca, const ibv_async_event& event, const std::string& text);
  void on_port_event(const HcaContext& hca, const ibv_async_event& event, const std::string& text);
  std::vector<Watched> watched_with(const EventSource& source);
  Room gives_way(const HcaContext* hca, bool if_busy, Clock::time_point deadline);
  void watch_fd(int fd, uint32_t events = EPOLLIN);
  void leave_fd(int fd);
  std::set<int> polled();
  void wake_up();
  void tick(Clock::time_point now);
  void run_task();
  void tick_recoveries(Clock::time_point now, bool all);
  void have_made(const std::shared_ptr<Recovery>& recovery, RecoverySteps::Due due);
  void log_moved_counters(std::chrono::milliseconds patience);
  void log_what_is_left();
  std::vector<std::shared_ptr<PeerLink>> links();
  std::vector<std::shared_ptr<Recovery>> recoveries();

  const UniqueFd epoll_;
  const UniqueFd wake_;  // an eventfd; readable: the links have changed, or the thread is to stop
  const bool events_fail_;
  Episodes episodes_;
  FailureLog failures_{episodes_};
  RailLog rails_{episodes_};
  UnreachablePaths unreachable_paths_;
  RailTotals rail_totals_;
  ProcessCounters process_counters_;
  MovedCounters moved_counters_;
  std::mutex mutex_;  // guards stopping_, links_, hcas_, polled_ and task_
  bool stopping_ = false;
  std::map<int, Watched> links_;                     // by socket
  std::map<int, std::shared_ptr<HcaContext>> hcas_;  // by async fd
  std::set<int> polled_;                             // descriptors that epoll refused
  std::function<bool()> task_;                       // of each_second()
  uint64_t tasks_ = 0;                               // how often that was called
  std::atomic<bool> recoveries_changed_{false};      // the deadline of one has come nearer
  std::atomic<int> memory_suffices_{0};              // for so many connections; for an estimate
  // Watcher thread only. The deadlines are kept, so that a wake-up does not look at every link:
  // while a job starts, there is one for each connection.
  Watchdog watchdog_;
  Clock::time_point next_tick_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();
  Clock::time_point next_recovery_ = Clock::time_point::max();
  ReopenPort reopen_port_;
  // Threads of their own, which end before all above that they use. One stops queue pairs of each
  // HCA, and one revives them, so that none waits for the firmware of another.
  struct Reviver {
    SlowPaths slow_paths;
    BlockingCalls calls{"gdr-reviver"};
  };
  BlockingCalls caller_{"gdr-caller"};
  std::map<const HcaContext*, Reviver> revivers_;
  std::map<const HcaContext*, BlockingCalls> stoppers_;
  std::thread thread_;
};

}  // namespace gdr::transport

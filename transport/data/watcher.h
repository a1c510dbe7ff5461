// The one background thread of the transport. It watches the sockets of all connections (frames of
// the peers, and peers that went away), the asynchronous events of the HCAs, and connections
// without progress. It touches the data path by failing a link (PeerLink::fail_link) and by asking
// for a probe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/data/failure_log.h"
#include "transport/data/peer_link.h"
#include "transport/data/watchdog.h"
#include "transport/device/hca.h"

namespace gdr::transport {

// Owns the background thread; one per Transport. Its public functions may be called from any
// thread.
class Watcher {
 public:
  // Starts the thread. watchdog: seconds without progress after which a connection is logged; 0
  // turns that off. events_fail: fatal events of HCAs fail the connections that they concern;
  // otherwise they are only logged (NCCL_IB_RETURN_ASYNC_EVENTS).
  static Result<std::unique_ptr<Watcher>> start(std::chrono::seconds watchdog,
                                                bool events_fail = true);
  // Stops the thread and waits for its end.
  ~Watcher();

  // Watches a link. objects: the ibv_contexts, CQs and QPs of its connection; a fatal event of one
  // fails the link.
  void add(const std::shared_ptr<PeerLink>& link, std::vector<const void*> objects);
  // Stops watching a link. The thread may still be inside a last callback, which holds a reference
  // of its own.
  void remove(const PeerLink* link);
  // Watches the asynchronous events of an HCA, for as long as the watcher lives.
  void add_hca(const std::shared_ptr<HcaContext>& hca);
  // Logs the failure of a link that a call of NCCL's returns: as a warning for the first connection
  // with a peer process.
  void log_failure(const PeerLink& link);
  // See FailureLog.
  void warn_once(const std::string& cause, const std::string& text) {
    failures_.warn_once(cause, text);
  }

 private:
  struct Watched {
    std::shared_ptr<PeerLink> link;
    std::vector<const void*> objects;
  };

  using Clock = PeerLink::Clock;

  Watcher(UniqueFd epoll, UniqueFd wake, std::chrono::seconds watchdog, bool events_fail);
  void run();
  bool run_once();
  int wait_milliseconds();
  void on_ready(int fd);
  void on_hca_event(HcaContext& hca);
  void on_port_error(const HcaContext& hca, const std::string& text);
  std::vector<std::shared_ptr<PeerLink>> links_of(const void* object);
  void fail_links_of(const void* object, const std::string& text);
  void watch_fd(int fd);
  std::set<int> polled();
  void wake_up();
  void tick(Clock::time_point now);
  void report_lost_paths(const std::vector<std::shared_ptr<PeerLink>>& links,
                         Clock::time_point now);
  std::vector<std::shared_ptr<PeerLink>> links();

  const UniqueFd epoll_;
  const UniqueFd wake_;  // an eventfd; readable: the links have changed, or the thread is to stop
  const bool events_fail_;
  FailureLog failures_;
  std::mutex mutex_;  // guards stopping_, links_, hcas_ and polled_
  bool stopping_ = false;
  std::map<int, Watched> links_;                     // by socket
  std::map<int, std::shared_ptr<HcaContext>> hcas_;  // by async fd
  std::set<int> polled_;                             // descriptors that epoll refused
  // Watcher thread only. The deadlines are kept, so that a wake-up does not look at every link:
  // while a job starts, there is one for each connection.
  Watchdog watchdog_;
  Clock::time_point next_tick_{};
  Clock::time_point next_deadline_ = Clock::time_point::max();
  std::set<const PeerLink*> reported_;  // deaf links whose loss of the path has been logged
  std::thread thread_;
};

}  // namespace gdr::transport

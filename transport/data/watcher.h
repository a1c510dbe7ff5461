// The one background thread of the transport: notices peers that went away, frames on kept
// handshake sockets, asynchronous events of HCAs, and requests that make no progress. It never
// touches the data path beyond setting a link's failed flag.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/data/peer_link.h"
#include "transport/device/hca.h"

namespace gdr::transport {

class Watcher {
 public:
  static Result<std::unique_ptr<Watcher>> start(std::chrono::seconds watchdog);
  ~Watcher();

  // objects: the connection's ibv_contexts, CQs and QPs; a fatal event of one fails the link.
  void add(const std::shared_ptr<PeerLink>& link, std::vector<const void*> objects);
  // The watcher may still be inside a last callback, which holds its own reference.
  void remove(const PeerLink* link);
  void add_hca(const std::shared_ptr<HcaContext>& hca);

 private:
  struct Watched {
    std::shared_ptr<PeerLink> link;
    std::vector<const void*> objects;
  };

  Watcher(UniqueFd epoll, UniqueFd wake, std::chrono::seconds watchdog);
  void run();
  int wait_milliseconds();
  void on_ready(int fd);
  void on_hca_event(HcaContext& hca);
  void fail_links_of(const void* object, const std::string& text);
  void wake_up();
  void tick();
  std::vector<std::shared_ptr<PeerLink>> links();

  const UniqueFd epoll_;
  const UniqueFd wake_;  // an eventfd; readable means look again, or stop
  const std::chrono::seconds watchdog_;
  std::mutex mutex_;
  bool stopping_ = false;
  std::map<int, Watched> links_;                     // by socket
  std::map<int, std::shared_ptr<HcaContext>> hcas_;  // by async fd
  std::thread thread_;
};

}  // namespace gdr::transport

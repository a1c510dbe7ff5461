// The table of the links that a watcher looks after.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/link/peer_link.h"
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

}  // namespace gdr::transport

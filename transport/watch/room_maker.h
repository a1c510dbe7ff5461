// How standby pairs make room for what other connections need.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/link/failure_log.h"
#include "transport/recovery/recovery.h"
#include "transport/watch/watched_links.h"

namespace gdr::transport {

// What a connection, or a registration, has asked others for so far.
struct RoomRequests {
  size_t count = 0;
  std::string elsewhere;  // the text of the lack for which other HCAs were asked last
};

// Thread-safe.
class RoomMaker {
 public:
  // Both outlive it.
  RoomMaker(const WatchedLinks& links, FailureLog& failures) : links_(links), failures_(failures) {}

  // How handshakes that are under way give a standby pair up (HandshakeRegistry::give_way). Before
  // there are any.
  void ask_handshakes(std::function<Room(const HcaContext* hca)> give_way) {
    handshakes_ = std::move(give_way);
  }

  // Whether a verb that fails so was asked for what the objects of other connections hold: memory
  // that may be locked, or the queues of an HCA or of a cgroup.
  static bool is_shared_lack(int err);
  // Something could not be created on that HCA. Where that is a shared lack, has a connection
  // destroy the QP of a standby pair there, or elsewhere if the memory that may be locked is
  // lacking, with a warning. bytes: of a registration. waits: for a second or two where the
  // connections are busy. Returns whether one was destroyed, so that it is to be tried again.
  bool make_room(const HcaContext& hca, const Error& lack, RoomRequests* so_far, size_t bytes = 0,
                 bool waits = true);
  // Checks that the process may lock options.spare_memory beside what connections with standby
  // rails take, by a registration, at the first call, after as many connections as the options have
  // it, and again at the next after it has failed. The error is ENOMEM.
  Status check_spare_memory(const HcaContext& hca, const ConnectionOptions& options);

 private:
  Room gives_way(const HcaContext* hca, bool if_busy);
  Room ask(const HcaContext* hca, bool waits);

  const WatchedLinks& links_;
  FailureLog& failures_;
  std::function<Room(const HcaContext* hca)> handshakes_ = [](auto) { return Room::kNone; };
  std::atomic<int> memory_suffices_{0};  // for so many connections; for an estimate
};

}  // namespace gdr::transport

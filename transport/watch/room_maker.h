// How standby pairs make room for what other connections need.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/link/failure_log.h"
#include "transport/recovery/recovery.h"
#include "transport/watch/watched_links.h"

namespace gdr::transport {

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

  // Has a connection destroy the QP of a standby pair on that HCA, or elsewhere on any, since
  // something that another connection needs could not be created: `lack`, for a warning. Waits for
  // a second or two where the connections are busy. Returns whether one was destroyed.
  bool make_room(const HcaContext& hca, const std::string& lack, bool waits, bool elsewhere);
  // Checks that the process may lock options.spare_memory beside what connections with standby
  // rails take, by a registration, at the first call, after as many connections as the options have
  // it, and again at the next after it has failed. The error is ENOMEM.
  Status check_spare_memory(const HcaContext& hca, const ConnectionOptions& options);

 private:
  Room gives_way(const HcaContext* hca, bool if_busy);

  const WatchedLinks& links_;
  FailureLog& failures_;
  std::function<Room(const HcaContext* hca)> handshakes_ = [](auto) { return Room::kNone; };
  std::atomic<int> memory_suffices_{0};  // for so many connections; for an estimate
};

// What a connection asks others to give up, where something of its own cannot be created. Each
// standby pair that gives way is one request, of which a connection makes a limited number:
// what lacks more lacks something else.
class RoomRequests {
 public:
  explicit RoomRequests(RoomMaker& room) : room_(room) {}

  // Whether a verb that fails so was asked for what the objects of other connections hold: memory
  // that may be locked, or the queues of an HCA or of a cgroup.
  static bool is_shared_lack(int err);

  // Whether something that could not be created on the device for that reason is to be tried again,
  // as the standby pair of another connection has been destroyed for it.
  bool make_room(const Device& device, const Error& lack, bool waits = true);
  // The same for a registration of so many bytes, for the n-th time. Any thread.
  bool make_room_to_register(const HcaContext& hca, const Error& lack, size_t bytes,
                             size_t n) const;

 private:
  RoomMaker& room_;
  int requests_ = 0;
  std::string lacked_elsewhere_;  // text of the lack for which other HCAs were asked at last
};

}  // namespace gdr::transport

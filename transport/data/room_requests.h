// What a connection asks others to give up, where something of its own cannot be created.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {

// Each standby pair that gives way is one request. A connection makes a limited number of them:
// what lacks more lacks something else.
class RoomRequests {
 public:
  explicit RoomRequests(Watcher* watcher) : watcher_(watcher) {}

  // Whether a verb that fails so was asked for too much: for deeper queues than the HCA has
  // (EINVAL), or for what the objects of other connections hold, which are memory that may be
  // locked and the queues of an HCA or of a cgroup.
  static bool is_lack(int err);
  // Only the latter.
  static bool is_shared_lack(int err);

  // Whether something that could not be created on the device for that reason is to be tried again,
  // as the standby pair of another connection has been destroyed for it.
  bool make_room(const Device& device, const Error& lack, bool waits = true);
  // The same for a registration of so many bytes, for the n-th time. Any thread.
  bool make_room_to_register(const HcaContext& hca, const Error& lack, size_t bytes,
                             size_t n) const;

 private:
  Watcher* watcher_;
  int requests_ = 0;
  std::string lacked_elsewhere_;  // text of the lack for which another HCA's pair gave way at last
};

}  // namespace gdr::transport

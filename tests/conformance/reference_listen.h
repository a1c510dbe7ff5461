// How connections of the reference plugin come about.
#pragma once

#include <vector>

#include "tests/conformance/reference_comm.h"

namespace gdr::reference {

// What listen puts into the handle. The connecting side keeps its state there between calls.
struct Handle {
  uint64_t secret = 0;
  uint16_t port = 0;
  class Connecting* connecting = nullptr;
};
static_assert(sizeof(Handle) <= abi::kHandleMaxBytes);

// The connecting side: connects, sends its Hello, and waits for one byte of welcome.
class Connecting {
 public:
  static Connecting* start(const Handle& handle);
  // Success with *comm null: call again.
  abi::ncclResult_t step(SendComm** comm);

 private:
  UniqueFd fd_;
  Hello hello_;
  bool greeted_ = false;
};

class ListenComm {
 public:
  static ListenComm* open(Handle* handle);
  abi::ncclResult_t accept(RecvComm** comm);

 private:
  struct PendingPeer {
    UniqueFd fd;
    Hello hello;
    size_t bytes = 0;
  };
  enum class Heard { kMore, kStranger, kFriend };
  Heard listen_to(PendingPeer& caller) const;

  UniqueFd fd_;
  uint64_t secret_ = 0;
  std::vector<PendingPeer> pending_;
};

}  // namespace gdr::reference

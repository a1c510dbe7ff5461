// How the reference plugin sets up connections.
#pragma once

#include <vector>

#include "tests/conformance/reference_comm.h"

namespace gdr::reference {

// The contents of the handle. The connecting side keeps its state there between calls.
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
  // Returns success with *comm null if it must be called again.
  abi::ncclResult_t step(SendComm** comm);

 private:
  UniqueFd fd_;
  Hello hello_;
  bool hello_sent_ = false;
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
  enum class HelloState { kIncomplete, kRejected, kAccepted };
  HelloState read_hello(PendingPeer& peer) const;

  UniqueFd fd_;
  uint64_t secret_ = 0;
  std::vector<PendingPeer> pending_;
};

}  // namespace gdr::reference

// How the reference plugin sets up connections.
#pragma once

#include "tests/conformance/reference_comm.h"

namespace gdr::reference {

// The contents of the handle. The connecting side keeps its state there between calls.
struct Handle {
  uint16_t port = 0;
  class Connecting* connecting = nullptr;
};
static_assert(sizeof(Handle) <= abi::kHandleMaxBytes);

// The connecting side: connects, and waits for one byte of welcome.
class Connecting {
 public:
  static Connecting* start(const Handle& handle);
  // Returns success with *comm null if it must be called again.
  abi::ncclResult_t step(SendComm** comm);

 private:
  UniqueFd fd_;
};

class ListenComm {
 public:
  static ListenComm* open(Handle* handle);
  abi::ncclResult_t accept(RecvComm** comm);

 private:
  UniqueFd fd_;
};

}  // namespace gdr::reference

// Owners of comms and registrations of a plugin.
#pragma once

#include <memory>

#include "plugin/abi/net_v8.h"

namespace gdr::tools {

using CloseEntry = abi::ncclResult_t (*)(void*);

struct CloseComm {
  CloseEntry close = nullptr;
  // A failed close cannot be handled here; nccl-gdr conformance checks the results of close itself.
  void operator()(void* comm) const { (void)close(comm); }
};
using NetComm = std::unique_ptr<void, CloseComm>;  // a send, receive or listen comm

struct Deregister {
  const abi::ncclNet_v8_t* net = nullptr;
  void* comm = nullptr;
  void operator()(void* mhandle) const { (void)net->deregMr(comm, mhandle); }
};
using Registration = std::unique_ptr<void, Deregister>;  // must end before its comm

}  // namespace gdr::tools

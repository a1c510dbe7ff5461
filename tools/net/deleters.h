// Owners of what a plugin returns: communicators' contexts, comms and registrations. What fails
// while one ends cannot be handled here; nccl-gdr conformance checks the results of these calls
// itself.
#pragma once

#include <memory>

#include "tools/net/net.h"

namespace gdr::tools {

struct CloseComm {
  Net* net = nullptr;
  abi::ncclResult_t (Net::*close)(void*) = nullptr;
  void operator()(void* comm) const { (void)(net->*close)(comm); }
};
using NetComm = std::unique_ptr<void, CloseComm>;  // a send, receive or listen comm

inline NetComm own_send(Net& net, void* comm = nullptr) {
  return {comm, CloseComm{&net, &Net::close_send}};
}
inline NetComm own_recv(Net& net, void* comm = nullptr) {
  return {comm, CloseComm{&net, &Net::close_recv}};
}
inline NetComm own_listen(Net& net, void* comm = nullptr) {
  return {comm, CloseComm{&net, &Net::close_listen}};
}

struct Deregister {
  Net* net = nullptr;
  void* comm = nullptr;
  void operator()(void* mhandle) const { (void)net->dereg_mr(comm, mhandle); }
};
using Registration = std::unique_ptr<void, Deregister>;  // must end before its comm

// Ends what a successful init returned, which may be null.
struct Finalize {
  void* context = nullptr;
  void operator()(Net* net) const { (void)net->finalize(context); }
};
using NetContext = std::unique_ptr<Net, Finalize>;  // must end after its comms

}  // namespace gdr::tools

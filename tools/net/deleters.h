// Owners of what a plugin returns: communicators' contexts, comms and registrations. What fails
// while one ends cannot be handled here; nccl-gdr conformance checks the results of these calls
// itself.
#pragma once

#include <memory>
#include <utility>

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

// What a successful init returned, which may be null. Must end after its comms.
class NetContext {
 public:
  NetContext() = default;
  NetContext(Net& net, void* context) : net_(&net), context_(context) {}
  NetContext(NetContext&& other) noexcept
      : net_(std::exchange(other.net_, nullptr)), context_(other.context_) {}
  NetContext& operator=(NetContext&& other) noexcept {
    std::swap(net_, other.net_);
    std::swap(context_, other.context_);
    return *this;
  }
  ~NetContext() {
    if (net_ != nullptr) (void)net_->finalize(context_);
  }

  void* get() const { return context_; }
  // Leaves finalize to the caller.
  void* release() {
    net_ = nullptr;
    return context_;
  }

 private:
  Net* net_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace gdr::tools

// One end of a connection with its memory, and the requests that are in flight on it.
#pragma once

#include <fmt/format.h>

#include "base/result.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tools/net/net.h"
#include "tools/ranks/stall_guard.h"

namespace gdr::tools {

struct Endpoint {
  Net* net = nullptr;
  void* comm = nullptr;
  void* mhandle = nullptr;
  char* data = nullptr;
  bool sends = false;
  const cuda::GpuWorkspace* gpu = nullptr;  // owner of data; null: host memory

  // Posts one message of `bytes` bytes. *request stays null when the plugin has no room yet.
  abi::ncclResult_t post(char* at, size_t bytes, void** request, int tag = 0) const {
    *request = nullptr;
    void* phandle = nullptr;  // no profiler
    if (sends) return net->isend(comm, at, bytes, tag, mhandle, phandle, request);
    void* address = at;
    void* handle = mhandle;
    return net->irecv(comm, 1, &address, &bytes, &tag, &handle, &phandle, request);
  }
};

// The error of a table entry that returned `result` for a message.
inline tl::unexpected<Error> entry_failed(const char* entry, size_t message,
                                          abi::ncclResult_t result) {
  return fail(Code::kRemote, fmt::format("{} of message {}: {}", entry, message, describe(result)));
}

// Requests in flight, oldest first; abi::kMaxRequests at most.
class RequestQueue {
 public:
  size_t posted() const { return posted_; }
  size_t completed() const { return completed_; }
  size_t in_flight() const { return posted_ - completed_; }

  // Takes what a call returned to post one; false: nothing, since the plugin has no room yet.
  bool push(void* request) {
    if (request == nullptr) return false;
    requests_[posted_++ % abi::kMaxRequests] = request;
    return true;
  }

  // Tests the oldest. Returns true when it has completed. `sizes` are those of a receive.
  Result<bool> test(Net& net, int* sizes) {
    int done = 0;
    const auto result = net.test(requests_[completed_ % abi::kMaxRequests], &done, sizes);
    if (result != abi::ncclSuccess) return entry_failed("test", completed_, result);
    completed_ += done != 0 ? 1 : 0;
    return done != 0;
  }

 private:
  size_t posted_ = 0;
  size_t completed_ = 0;
  void* requests_[abi::kMaxRequests];
};

}  // namespace gdr::tools

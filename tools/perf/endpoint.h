// One end of a connection with its memory, and the loop in which NCCL's proxy drives it
// (src/transport/net.cc, sendProxyProgress): requests are posted up to a depth, posted again while
// the plugin returns none, and tested oldest first.
#pragma once

#include <fmt/format.h>

#include <algorithm>

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

// Calls iflush and waits for it, which makes received GPU memory safe to read. NCCL does so before
// a kernel reads.
Status flush_received(const Endpoint& end, char* at, size_t bytes, StallGuard& guard);

struct StreamShape {
  size_t bytes = 0;     // of a message
  size_t messages = 0;  // in the whole run
  size_t depth = 1;     // most messages in flight; up to abi::kMaxRequests
  size_t slots = 1;     // parts of the buffer that messages use in turn
  size_t group = 1;     // messages of one receive; where there are several, depth counts groups

  // Bytes from one slot to the next: whole pages.
  size_t stride() const { return (bytes + 4095) / 4096 * 4096; }
};

// Hooks for a run that only moves bytes.
struct NoHooks {
  void before_post(char* /*at*/, size_t /*message*/) {}
  void after_done(const char* /*at*/, size_t /*message*/, int /*bytes*/) {}
};

// The error of a table entry that returned `result` for a message.
inline tl::unexpected<Error> entry_failed(const char* entry, size_t message,
                                          abi::ncclResult_t result) {
  return fail(Code::kRemote, fmt::format("{} of message {}: {}", entry, message, describe(result)));
}

// Moves shape.messages messages through the endpoint. hooks.before_post(address, message) is called
// before the first attempt to post and hooks.after_done(address, message, bytes) after each
// completion. Returns an error when a table entry fails or when there is no progress for the rank's
// patience.
template <class Hooks>
Status run_stream(const Endpoint& end, const StreamShape& shape, StallGuard& guard, Hooks& hooks) {
  void* in_flight[abi::kMaxRequests];
  size_t prepared = 0;
  size_t posted = 0;
  size_t completed = 0;
  // Step through the slots instead of computing an address by division, which costs more than a
  // test() without a completion.
  const size_t stride = shape.stride();
  char* const past_last = end.data + shape.slots * stride;
  auto next = [&](char* at) { return at + stride < past_last ? at + stride : end.data; };
  char* post_at = end.data;
  char* done_at = end.data;
  guard.progress();
  while (completed < shape.messages) {
    bool moved = false;
    if (posted < shape.messages && posted - completed < shape.depth) {
      if (prepared == posted) hooks.before_post(post_at, prepared++);
      void* request = nullptr;
      abi::ncclResult_t result = end.post(post_at, shape.bytes, &request);
      if (result != abi::ncclSuccess) {
        return entry_failed(end.sends ? "isend" : "irecv", posted, result);
      }
      if (request != nullptr) {
        in_flight[posted++ % abi::kMaxRequests] = request;
        post_at = next(post_at);
        moved = true;
      }
    }
    if (completed < posted) {
      int done = 0;
      int bytes = 0;
      abi::ncclResult_t result =
          end.net->test(in_flight[completed % abi::kMaxRequests], &done, &bytes);
      if (result != abi::ncclSuccess) return entry_failed("test", completed, result);
      if (done != 0) {
        hooks.after_done(done_at, completed, bytes);
        done_at = next(done_at);
        ++completed;
        moved = true;
      }
    }
    if (moved) {
      guard.progress();
    } else if (!guard.keep_waiting()) {
      return fail(Code::kRemote,
                  fmt::format("gave up waiting: {} of {} messages of {} bytes {}, {} in flight",
                              completed, shape.messages, shape.bytes,
                              end.sends ? "sent" : "received", posted - completed));
    }
  }
  return {};
}

}  // namespace gdr::tools

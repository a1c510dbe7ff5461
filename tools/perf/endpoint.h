// One end of a connection with the memory it uses, and NCCL's way of keeping it busy: requests are
// posted up to a depth, tried again while the plugin has no room, and tested oldest first.
#pragma once

#include <fmt/format.h>

#include <algorithm>

#include "base/result.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tools/common/plugin_loader.h"
#include "tools/common/stall_guard.h"

namespace gdr::tools {

struct Endpoint {
  const abi::ncclNet_v8_t* net = nullptr;
  void* comm = nullptr;
  void* mhandle = nullptr;
  char* data = nullptr;
  bool sends = false;
  const cuda::GpuWorkspace* gpu = nullptr;  // whose memory data is; null: the host's

  // *request stays null when the plugin has no room yet.
  abi::ncclResult_t post(char* at, size_t bytes, void** request) const {
    *request = nullptr;
    int size = static_cast<int>(bytes);
    if (sends) return net->isend(comm, at, size, 0, mhandle, request);
    int tag = 0;
    void* address = at;
    void* handle = mhandle;
    return net->irecv(comm, 1, &address, &size, &tag, &handle, request);
  }
};

// Makes received GPU memory safe to read, and waits for it; as NCCL does before a kernel reads.
Status flush_received(const Endpoint& end, char* at, size_t bytes, StallGuard& guard);

struct StreamShape {
  size_t bytes = 0;     // of a message
  size_t messages = 0;  // one after the other
  size_t depth = 1;     // in flight at most; up to abi::kMaxRequests
  size_t slots = 1;     // places in the buffer that messages take in turn

  size_t stride() const { return (bytes + 4095) / 4096 * 4096; }
};

// Hooks for a run that only moves bytes.
struct NoHooks {
  void before_post(char* /*at*/, size_t /*message*/) {}
  void after_done(const char* /*at*/, size_t /*message*/, int /*bytes*/) {}
};

inline tl::unexpected<Error> entry_failed(const char* entry, size_t message,
                                          abi::ncclResult_t result) {
  return fail(Code::kRemote, fmt::format("{} of message {}: {}", entry, message, describe(result)));
}

// Moves shape.messages through the endpoint. Returns an error when an entry fails or when nothing
// moves for the rank's patience.
template <class Hooks>
Status run_stream(const Endpoint& end, const StreamShape& shape, StallGuard& guard, Hooks& hooks) {
  void* in_flight[abi::kMaxRequests];
  size_t posted = 0;
  size_t completed = 0;
  // Addresses by walking, as a division costs more than an empty test().
  const size_t stride = shape.stride();
  char* const past_last = end.data + shape.slots * stride;
  auto next = [&](char* at) { return at + stride < past_last ? at + stride : end.data; };
  char* post_at = end.data;
  char* done_at = end.data;
  guard.progress();
  while (completed < shape.messages) {
    bool moved = false;
    if (posted < shape.messages && posted - completed < shape.depth) {
      hooks.before_post(post_at, posted);
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

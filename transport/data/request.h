// The requests that isend, irecv and iflush return to NCCL, and a pool of them that never
// allocates.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/wire/wire.h"

namespace gdr::transport {

class Comm;
struct MemoryHandle;

enum class RequestKind : uint8_t { kSend, kReceive, kFlush };

// Done when `pending` is zero.
struct Request {
  Comm* comm;  // a SendComm for kSend, else a ReceiveComm
  RequestKind kind;
  uint8_t buffers;  // of a grouped receive; else 1
  // Completions still to come (sends, flushes), or buffers still to fill (receives).
  uint16_t pending;
  // Receives: the completion of a buffer is reported to an observer. False again once all buffers
  // are complete, so that taking a request need not clear it.
  bool observed;
  uint64_t first;  // number of the first buffer
  // Sends: what is sent again where a pair is lost, and since when that happens to the same chunk;
  // flushes: what is read.
  const void* data;
  const MemoryHandle* memory;
  std::chrono::steady_clock::rep failing_since;
  // Receives only, the arrays by buffer of the group.
  uint32_t whole;  // the immediate of the first buffer's message if that is one chunk
  std::array<uint16_t, wire::kMaxGroup> chunks_seen;  // chunks that have arrived
  std::array<uint64_t, wire::kMaxGroup> bytes;        // received so far; [0] of a send: its bytes
  std::array<uint64_t, wire::kMaxGroup> capacity;     // bytes posted
};

static_assert(std::is_trivially_default_constructible_v<Request>);  // a pool's stay untouched

// A fixed number of requests and a stack of the free ones: taking and giving back are a few
// instructions, and the request used last, which is in the cache, is the next to be taken. Requests
// are given their first values a block at a time, when all before them are in use, so that the
// memory of those that a connection never needs is never touched.
template <int kCount>
class RequestPool {
 public:
  // All are of that comm and kind, and have one buffer: what take() returns need not be given that.
  RequestPool(Comm* comm, RequestKind kind) : comm_(comm), kind_(kind) {
    for (int i = 0; i < kCount; ++i) free_[i] = &requests_[kCount - 1 - i];
  }
  RequestPool() : RequestPool(nullptr, RequestKind::kSend) {}
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Returns null when all are in use.
  Request* take() {
    if (free_count_ <= unused_) [[unlikely]]
      return take_first_time();
    return free_[--free_count_];
  }
  void give_back(Request* request) { free_[free_count_++] = request; }
  // Numbers the requests from 0.
  size_t index_of(const Request& request) const {
    return static_cast<size_t>(&request - requests_.data());
  }

  Request& operator[](size_t index) { return requests_[index]; }

 private:
  static constexpr int kBlock = 4;

  [[gnu::cold, gnu::noinline]] Request* take_first_time() {
    if (free_count_ == 0) return nullptr;
    for (int i = 0; i < kBlock && unused_ > 0; ++i) {
      Request* request = free_[--unused_];
      *request = Request{};
      request->comm = comm_;
      request->kind = kind_;
      request->buffers = 1;
    }
    return free_[--free_count_];
  }

  Comm* const comm_;
  const RequestKind kind_;
  std::array<Request, kCount> requests_;  // indeterminate until they are taken
  std::array<Request*, kCount> free_{};
  uint32_t free_count_ = kCount;
  // The first so many of free_ have not been used yet: they are below all that have been.
  uint32_t unused_ = kCount;
};

// Sends in flight. NCCL has up to 8 steps (NCCL_STEPS) of each of up to 8 operations of a group
// under way, so that half of them would do; a message may have as many chunks as there are requests
// (wire::kMaxQps). Each costs a request and entries of a send queue, so that there are no more:
// isend returns no request when they are in use, and NCCL calls it again.
inline constexpr int kSendRequests = 128;
static_assert(kSendRequests >= wire::kMaxQps);
using SendRequests = RequestPool<kSendRequests>;

}  // namespace gdr::transport

// The requests that isend, irecv and iflush return to NCCL, and a pool of them that never
// allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/wire/wire.h"

namespace gdr::transport {

class Comm;
struct MemoryHandle;

enum class RequestKind : uint8_t { kSend, kReceive, kFlush };

// Bits of Request::special of a send.
inline constexpr uint8_t kAttended = 1;
inline constexpr uint8_t kChained = 2;

// Done when `pending` is zero.
struct Request {
  Comm* comm;  // a SendComm for kSend, else a ReceiveComm
  RequestKind kind;
  uint8_t buffers;  // of a grouped receive; else 1
  // Completions still to come (sends, flushes), or buffers still to fill (receives).
  uint16_t pending;
  // Sends: work requests beyond those of a message of one chunk; 0 but for large ones.
  uint8_t extra_chunks;
  // Whose completions take more than to be counted. Sends: kAttended for those with extra chunks or
  // observed ones, kChained for those that complete others, too. Receives: bit per buffer that is
  // observed. Both are 0 again once all has completed, so that taking a request need not clear
  // them.
  uint8_t special;
  // Sends, with kChained: the request that completes with this one is so many requests further on
  // in the pool.
  int16_t ahead;
  uint64_t first;  // number of the first buffer
  // Sends of a connection that recovers: what is sent again where a pair is lost.
  const void* data;
  const MemoryHandle* memory;
  // Receives only, the arrays by buffer of the group.
  uint32_t whole;  // the immediate of the first buffer's message if that is one chunk
  std::array<uint16_t, wire::kMaxGroup> chunks_seen;  // chunks that have arrived
  std::array<uint64_t, wire::kMaxGroup> bytes;        // received so far; [0] of a send: its bytes
  std::array<uint64_t, wire::kMaxGroup> capacity;     // bytes posted
};

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

  // Returns null when all but the reserved ones are in use.
  Request* take() {
    if (free_count_ <= stop_) [[unlikely]]
      return take_first_time();
    return free_[--free_count_];
  }
  void give_back(Request* request) { free_[free_count_++] = request; }
  bool all_free() const { return free_count_ == kCount; }
  // Numbers the requests from 0.
  size_t index_of(const Request& request) const {
    return static_cast<size_t>(&request - requests_.data());
  }

  Request& operator[](size_t index) { return requests_[index]; }

  // How many take() would return.
  int available() const { return free_count_ - reserved_; }
  // Holds back `count` requests, or ends that for -count: their work requests serve another one.
  void reserve(int count) {
    reserved_ += count;
    stop_ = std::max(reserved_, unused_);
  }
  int reserved() const { return reserved_; }

 private:
  static constexpr int kBlock = 16;

  [[gnu::cold, gnu::noinline]] Request* take_first_time() {
    if (free_count_ <= reserved_) return nullptr;
    for (int i = 0; i < kBlock && unused_ > 0; ++i) {
      Request* request = free_[--unused_];
      *request = Request{};
      request->comm = comm_;
      request->kind = kind_;
      request->buffers = 1;
    }
    stop_ = std::max(reserved_, unused_);
    return free_[--free_count_];
  }

  Comm* const comm_;
  const RequestKind kind_;
  std::array<Request, kCount> requests_;  // indeterminate until they are taken
  std::array<Request*, kCount> free_{};
  int free_count_ = kCount;
  int reserved_ = 0;
  // The first so many of free_ have not been used yet: they are below all that have been.
  int unused_ = kCount;
  int stop_ = kCount;  // the larger of both, at which take() has more to do
};

}  // namespace gdr::transport

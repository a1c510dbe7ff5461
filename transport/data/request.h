// The requests that isend, irecv and iflush return to NCCL, and a pool of them that never
// allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/wire/wire.h"

namespace gdr::transport {

class Comm;

enum class RequestKind : uint8_t { kSend, kReceive, kFlush };

// Done when `pending` is zero.
struct Request {
  Comm* comm;  // a SendComm for kSend, else a ReceiveComm
  RequestKind kind;
  uint8_t buffers;  // of a grouped receive; else 1
  // Completions still to come (sends, flushes), or buffers still to fill (receives).
  uint16_t pending;
  // Sends: work requests beyond those of a message of one chunk; 0 but for large ones.
  uint8_t extra_chunks;
  // Whose completions take more than to be counted. Sends: 1 for those with extra chunks or
  // observed ones. Receives: bit per buffer that is observed or arrives in a bounce buffer. Both
  // are 0 again once all has completed, so that taking a request need not clear them.
  uint8_t special;
  // Receives only, the arrays by buffer of the group.
  uint32_t whole;  // the immediate of the first buffer's message if that is one chunk
  uint64_t first;  // number of the first buffer
  std::array<uint16_t, wire::kMaxGroup> chunks_seen;  // chunks that have arrived
  std::array<uint64_t, wire::kMaxGroup> bytes;        // received so far; [0] of a send: its bytes
  std::array<uint64_t, wire::kMaxGroup> capacity;     // bytes posted
};

// A fixed number of requests and a stack of the free ones: taking and giving back are a few
// instructions, and the request used last, which is in the cache, is the next to be taken.
template <int kCount>
class RequestPool {
 public:
  RequestPool() {
    for (int i = 0; i < kCount; ++i) free_[i] = &requests_[kCount - 1 - i];
  }
  // All are of that comm and kind, and have one buffer: what take() returns need not be given that.
  RequestPool(Comm* comm, RequestKind kind) : RequestPool() {
    for (Request& request : requests_) {
      request.comm = comm;
      request.kind = kind;
      request.buffers = 1;
    }
  }
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Returns null when all but the reserved ones are in use.
  Request* take() { return free_count_ > reserved_ ? free_[--free_count_] : nullptr; }
  void give_back(Request* request) { free_[free_count_++] = request; }
  bool all_free() const { return free_count_ == kCount; }
  // Numbers the requests from 0.
  size_t index_of(const Request& request) const {
    return static_cast<size_t>(&request - requests_.data());
  }

  // How many take() would return.
  int available() const { return free_count_ - reserved_; }
  // Holds back `count` requests, or ends that for -count: their work requests serve another one.
  void reserve(int count) { reserved_ += count; }
  int reserved() const { return reserved_; }

 private:
  std::array<Request, kCount> requests_{};
  std::array<Request*, kCount> free_{};
  int free_count_ = kCount;
  int reserved_ = 0;
};

}  // namespace gdr::transport

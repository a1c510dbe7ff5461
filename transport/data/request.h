// What isend, irecv and iflush hand to NCCL, and a pool of them that never allocates.
#pragma once

#include <array>
#include <cstdint>

#include "transport/wire/wire.h"

namespace gdr::transport {

class Comm;

enum class RequestKind : uint8_t { kSend, kReceive, kFlush };

struct Request {
  Comm* comm;  // a SendComm for kSend, else a ReceiveComm
  RequestKind kind;
  uint8_t buffers;       // of a grouped receive; else 1
  uint16_t pending;      // completions still to come (sends) or buffers still to fill (receives)
  uint8_t extra_chunks;  // chunks beyond the first, of staged sends only
  uint8_t staged;        // bit per buffer that is copied on, receives only
  uint64_t first;        // number of the first buffer, receives only
  std::array<uint16_t, wire::kMaxGroup> chunks_seen;  // receives only
  std::array<uint64_t, wire::kMaxGroup> bytes;        // sent, or received so far
  std::array<uint64_t, wire::kMaxGroup> capacity;     // posted, receives only
};

template <int kCount>
class RequestPool {
 public:
  RequestPool() {
    for (int i = 0; i < kCount; ++i) free_[i] = &requests_[kCount - 1 - i];
  }
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  // Null when all are in use.
  Request* take() { return free_count_ > 0 ? free_[--free_count_] : nullptr; }
  void give_back(Request* request) { free_[free_count_++] = request; }

 private:
  std::array<Request, kCount> requests_{};
  std::array<Request*, kCount> free_{};
  int free_count_ = kCount;
};

}  // namespace gdr::transport

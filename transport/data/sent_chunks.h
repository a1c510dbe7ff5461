// The chunks that were posted on one pair and are not acknowledged, in their order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/data/request.h"

namespace gdr::transport {

// What is needed to count a chunk as complete, and to send it again over another pair.
struct SentChunk {
  Request* request;  // of its message
  size_t from;       // offset in the message
  size_t bytes;
  uint32_t work_requests;  // that it occupies in the send queue
  uint16_t reported_on;    // the pair under which the observer knows it, if it does
  uint16_t failures = 0;   // how often its pair was lost with it as the first that did not arrive
};

// A ring. A reliable-connected QP completes its requests in order, so that the oldest chunk is
// always acknowledged first. Chunks are numbered from 0 in each epoch of the pair, as the receiver
// numbers their immediates. Allocates when it is created and never again.
class SentChunks {
 public:
  // Room for at least that many chunks.
  explicit SentChunks(size_t capacity)
      : chunks_(std::bit_ceil(capacity)), mask_(chunks_.size() - 1) {}

  bool empty() const { return acknowledged_ == posted_; }
  size_t size() const { return static_cast<size_t>(posted_ - acknowledged_); }
  // How many were posted in this epoch, and how many of those are no longer in the ring: the
  // numbers of the next chunk and of the oldest one.
  uint64_t posted() const { return posted_; }
  uint64_t acknowledged() const { return acknowledged_; }

  void push(const SentChunk& chunk) { chunks_[posted_++ & mask_] = chunk; }
  // The chunk stays where it is until the next push().
  const SentChunk& pop() { return at(acknowledged_++); }
  const SentChunk& at(uint64_t number) const { return chunks_[number & mask_]; }
  // Begins an epoch. The ring is empty.
  void restart() { acknowledged_ = posted_ = 0; }

 private:
  std::vector<SentChunk> chunks_;
  uint64_t mask_;  // of their number, which is a power of two
  uint64_t acknowledged_ = 0;
  uint64_t posted_ = 0;
};

}  // namespace gdr::transport

// The chunks that were posted on one pair and are not acknowledged, in their order.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "transport/data/request.h"

namespace gdr::transport {

// What is needed to count a chunk as complete, and to send it again over another pair.
struct SentChunk {
  Request* request;  // of its message
  size_t from;       // offset in the message
  size_t bytes;
  uint32_t work_requests;  // that it occupies in the send queue
  uint32_t failures;       // how often its pair was lost with it as the first that did not arrive
  void* event;             // the observer's; null: its completion is not reported
};

// A ring. A reliable-connected QP completes its requests in order, so that the oldest chunk is
// always acknowledged first. Chunks are numbered from 0 in each epoch of the pair, as the receiver
// numbers their immediates. Most chunks are whole messages, of which the request says all that is
// needed, so that its address is all that is kept. Never allocates after its creation.
class SentChunks {
 public:
  static constexpr size_t kCapacity = 512;

  // Room for at least `most` chunks, up to kCapacity.
  explicit SentChunks(size_t most)
      : parts_mask_(std::bit_ceil(most) - 1),
        parts_(std::make_unique_for_overwrite<SentChunk[]>(parts_mask_ + 1)) {}

  bool empty() const { return acknowledged_ == posted_; }
  size_t size() const { return static_cast<size_t>(posted_ - acknowledged_); }
  // How many were posted in this epoch, and how many of those are no longer in the ring: the
  // numbers of the next chunk and of the oldest one.
  uint64_t posted() const { return posted_; }
  uint64_t acknowledged() const { return acknowledged_; }

  void push(const SentChunk& chunk) {
    wholes_[posted_ % kCapacity] = nullptr;
    parts_[posted_++ & parts_mask_] = chunk;
  }
  // A message of one work request that nobody observes. Its request stays as it is until pop().
  void push_whole(Request* request) { wholes_[posted_++ % kCapacity] = request; }
  // The oldest chunk, if push_whole() has added it; else null.
  Request* oldest_whole() const { return wholes_[acknowledged_ % kCapacity]; }
  // Removes the oldest chunk, which is one of push_whole().
  void pop_whole() { ++acknowledged_; }
  SentChunk pop() { return at(acknowledged_++); }
  SentChunk at(uint64_t number) const {
    Request* whole = wholes_[number % kCapacity];
    return whole == nullptr ? parts_[number & parts_mask_]
                            : SentChunk{whole, 0, whole->bytes[0], 1, 0, nullptr};
  }
  // Takes the event away from a chunk.
  void* take_event(uint64_t number) {
    if (wholes_[number % kCapacity] != nullptr) return nullptr;
    return std::exchange(parts_[number & parts_mask_].event, nullptr);
  }
  // Begins an epoch. The ring is empty.
  void restart() { acknowledged_ = posted_ = 0; }

 private:
  uint64_t acknowledged_ = 0;
  uint64_t posted_ = 0;
  std::array<Request*, kCapacity> wholes_;  // null: see parts_. Indeterminate until it is pushed
  // Not touched before there is one that is no whole message.
  const size_t parts_mask_;  // of their number, which is a power of two
  std::unique_ptr<SentChunk[]> parts_;
};

}  // namespace gdr::transport

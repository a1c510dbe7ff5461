// The receives of a connection by their clear-to-send slots, and what arrives for them.
#pragma once

#include <endian.h>

#include <array>
#include <cstdint>
#include <vector>

#include "transport/data/clear_to_send_writer.h"
#include "transport/data/connection.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/pairs/rail_set.h"

namespace gdr::transport {

// The buffers of a grouped receive, 1 to wire::kMaxGroup, as NCCL hands them over: parallel arrays.
// memory: of MemoryHandle.
struct ReceiveArrays {
  int count;
  void* const* data;
  const size_t* bytes;
  const int* tags;
  void* const* memory;
};

// Nothing arrives that was not asked for: a chunk names its slot, and all of what it states is
// checked against the receive that waits there. Has what announces the slots, so that the data path
// finds all of it at one address.
class ReceiveSlots {
 public:
  // Outlives it.
  explicit ReceiveSlots(Connection& connection);
  ~ReceiveSlots() { end_observation(); }

  RailTables& tables() { return tables_; }
  const RailTables& tables() const { return tables_; }
  ClearToSendWriter& announcements() { return announcements_; }

  // The observer's event of a request's buffer ends when that is complete, or with
  // end_observation(), behind which nothing is expected to arrive.
  void observe(Request* request, uint64_t buffer, void* event);
  void end_observation();

  // First buffer of the next receive.
  uint64_t head() const { return head_; }
  // Whether the slots of the next `count` buffers are free. They are not when a receive of 256
  // buffers before is still incomplete.
  bool are_free(int count) const;
  // Fills the clear-to-send slot of a request's buffer `index`; nothing of it is written to the
  // sender yet. base: EndPoint::sequence_base.
  void fill(const ReceiveArrays& buffers, int index, Request* request, uint64_t base);
  void advance(int count) { head_ += count; }

  // The receive for whose first buffer these are the immediate's bits, but for the epoch's `stamp`,
  // of a message that is one chunk; null where it is another arrival.
  Request* find_whole(uint32_t bits, uint32_t stamp, const ibv_wc& wc) const;
  // Takes the arrival that find_whole() has found.
  void take_whole(Request* request, uint32_t bits, uint32_t bytes);
  // Takes the completion of one chunk. Its immediate data names the slot, and the chunks of the
  // whole message, of which this is any. epoch: of the pair over which it came. What does not fit
  // fails the connection. Returns the bytes that the chunk has brought.
  uint64_t take_chunk(const ibv_wc& wc, uint32_t epoch);

  // Returns the number of the oldest buffer that is posted and not complete; head() where all are
  // complete.
  uint64_t oldest_incomplete() const;

 private:
  uint64_t take(const wire::Immediate& imm, const ibv_wc& wc, uint32_t epoch);
  [[gnu::noinline]] uint64_t take_coded(const ibv_wc& wc, uint32_t epoch);
  void complete_buffer(Request* request);
  // Cold: kept out of line, so that the hot path saves no registers for it.
  [[gnu::cold]] uint64_t fail(const char* what);

  Connection& connection_;
  RailTables tables_;
  ClearToSendWriter announcements_{connection_, tables_};
  uint64_t head_ = 0;
  std::array<Request*, wire::kSlots> slots_{};  // the receive that waits in each slot
  std::vector<void*> events_;                   // the observer's, by slot; empty: nobody observes
};

[[gnu::always_inline]] inline bool ReceiveSlots::are_free(int count) const {
  int i = 0;
  do {
    if (slots_[wire::slot_of(head_ + i)] != nullptr) return false;
  } while (++i < count);
  return true;
}

inline void ReceiveSlots::fill(const ReceiveArrays& buffers, int index, Request* request,
                               uint64_t base) {
  const size_t bytes = buffers.bytes[index];
  const auto* memory = static_cast<const MemoryHandle*>(buffers.memory[index]);
  const uint64_t number = request->first + index;
  const uint32_t slot = wire::slot_of(number);
  request->chunks_seen[index] = 0;
  request->bytes[index] = 0;
  request->capacity[index] = bytes;
  slots_[slot] = request;
  wire::ClearToSend& entry = tables_->ring[slot];
  entry.address = reinterpret_cast<uint64_t>(buffers.data[index]);
  entry.bytes = bytes;
  entry.rkey = memory->keys.rkeys();
  entry.group_and_flags = request->buffers | memory->slot_flags->load(std::memory_order_relaxed);
  entry.tag = buffers.tags[index];
  entry.sequence = base + number;
}

// That all of the immediate is what such a message has to carry over a pair in epoch 0 stands for
// every check of its parts.
[[gnu::always_inline]] inline Request* ReceiveSlots::find_whole(uint32_t bits, uint32_t stamp,
                                                                const ibv_wc& wc) const {
  Request* request = slots_[wire::decode_chunk(bits).slot];
  const bool is_whole = request != nullptr && request->whole == (bits ^ stamp) &&
                        request->chunks_seen[0] == 0 && !request->observed &&
                        wc.byte_len <= request->capacity[0];
  return is_whole ? request : nullptr;
}

[[gnu::always_inline]] inline void ReceiveSlots::take_whole(Request* request, uint32_t bits,
                                                            uint32_t bytes) {
  slots_[wire::decode_chunk(bits).slot] = nullptr;
  request->bytes[0] = bytes;
  complete_buffer(request);
}

[[gnu::always_inline]] inline void ReceiveSlots::complete_buffer(Request* request) {
  if (--request->pending > 0) return;
  connection_.link().count_completed();
  announcements_.on_received();
}

[[gnu::always_inline]] inline uint64_t ReceiveSlots::take_chunk(const ibv_wc& wc, uint32_t epoch) {
  const uint32_t bits = be32toh(wc.imm_data);
  if (wire::is_size_coded(bits)) [[unlikely]]
    return take_coded(wc, epoch);
  return take(wire::decode_chunk(bits), wc, epoch);
}

}  // namespace gdr::transport

// A message on its way to the peer, and how it is cut into chunks. Each chunk is one RDMA write
// that ends in the receiver's completion queue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/data/request.h"
#include "transport/memory/memory_handle.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Chunks of one size, of which the last may be shorter. No bytes are one empty chunk.
struct Chunking {
  size_t bytes;  // of each chunk
  uint32_t count;
};

constexpr size_t divide_up(size_t value, size_t divisor) { return (value + divisor - 1) / divisor; }

// Cuts a message for `parts` QPs, so that all of them carry a part of it. Chunks begin at multiples
// of 128 bytes (wire::kSplitAlignment): NCCL's LL128 protocol sends lines of 120 bytes of data and
// an 8-byte flag, and its receiver takes a line whose flag has arrived as a whole. A line cut in
// two would arrive over two QPs, which have no order between them. 10,000 bytes over 4 QPs: 3
// chunks of 2,560 and one of 2,320.
constexpr Chunking chunks_for_pairs(size_t bytes, uint32_t parts) {
  if (parts <= 1 || bytes <= wire::kSplitAlignment) return {bytes, 1};
  const size_t each =
      divide_up(divide_up(bytes, parts), wire::kSplitAlignment) * wire::kSplitAlignment;
  return {each, static_cast<uint32_t>(divide_up(bytes, each))};
}

// The least bytes of a chunk over several rails.
inline constexpr size_t kLeastChunkOfRails = size_t{64} << 10;

// Cuts a message for a connection of several rails: small enough that a slow rail can carry its
// part of the message, large enough that chunks cost little. Messages of less than 128 KiB stay
// whole. Larger ones are two chunks for each path, of 64 to 512 KiB: over two paths, 128 KiB are
// two chunks and 512 KiB are four of 128 KiB, and 8 MiB are sixteen. More than kMostOfRails there
// are only where those are larger than max_write_bytes. Chunks that are still larger, as `most` are
// too few, cannot be sent.
// least: chunks that are wanted in any case (NCCL_IB_SPLIT_DATA_ON_QPS). most: chunks that may be
// on one pair, up to what the immediate can count.
constexpr Chunking chunks_for_rails(size_t bytes, uint32_t paths, uint32_t least,
                                    size_t max_write_bytes, uint32_t most = wire::kMaxQps) {
  constexpr size_t kMostBytes = size_t{512} << 10;
  constexpr uint32_t kMostOfRails = 32;
  size_t each = bytes;
  if (paths > 1 && bytes >= 2 * kLeastChunkOfRails) {
    each = std::clamp(chunks_for_pairs(bytes, 2 * paths).bytes, kLeastChunkOfRails, kMostBytes);
    each = std::max(each, chunks_for_pairs(bytes, kMostOfRails).bytes);
  }
  each = std::min({each, chunks_for_pairs(bytes, least).bytes, max_write_bytes});
  each = std::max(each, chunks_for_pairs(bytes, most).bytes);
  if (bytes <= each) return {bytes, 1};
  return {each, static_cast<uint32_t>(divide_up(bytes, each))};
}

// Returns the most bytes up to which chunks_for_rails() leaves every message whole: for one path,
// and no more than one chunk wanted, the port's largest write.
constexpr size_t whole_for_rails(uint32_t paths, uint32_t least, size_t max_write_bytes) {
  size_t most = max_write_bytes;
  if (paths > 1) most = std::min(most, 2 * kLeastChunkOfRails - 1);
  if (least > 1) most = std::min(most, wire::kSplitAlignment);
  return most;
}

// Returns the most bytes of one RDMA write on a port whose largest message that is: a multiple of
// wire::kSplitAlignment.
constexpr size_t max_write_bytes(uint32_t max_message_bytes) {
  return std::max<size_t>(max_message_bytes / wire::kSplitAlignment, 1) * wire::kSplitAlignment;
}

// Returns the most bytes of one message on such a port, however it is sent: every send queue has
// room for that many chunks and their separate ends (kStandbyDepth in send_comm_set_up.cc).
inline constexpr size_t kMostWrites = 27;
constexpr size_t largest_message(uint32_t max_message_bytes) {
  return kMostWrites * max_write_bytes(max_message_bytes);
}

// Sends in flight. NCCL has up to 8 steps (NCCL_STEPS) of each of up to 8 operations of a group
// under way, so that half of them would do; a message may have as many chunks as there are requests
// (wire::kMaxQps). Each costs a request and entries of a send queue, so that there are no more:
// isend returns no request when they are in use, and NCCL calls it again.
inline constexpr int kSendRequests = 128;
static_assert(kSendRequests >= wire::kMaxQps);
using SendRequests = RequestPool<kSendRequests>;

// What isend was called with and found.
struct Send {
  size_t bytes;
  const void* data;
  uint64_t buffer;  // number of the receiver's buffer
  const MemoryHandle& memory;
  void* parent;
};

// Whether nothing speaks against a send into the slot, for most messages. The others need
// rejection_of().
inline bool suits(const Send& send, const wire::ClearToSend& slot) {
  return send.bytes <= slot.bytes && wire::is_plain(slot);
}
// Why a send into the slot is refused; nothing: it is not.
std::optional<Error> rejection_of(const Send& send, const wire::ClearToSend& slot);

// Why a message is refused that takes more writes than `most`.
std::string too_large_text(size_t bytes, size_t max_write_bytes, size_t most);

// Returns the size code of a message that ends in a write of its own, for a buffer of `capacity`
// bytes; kSizeInTable where it has none.
inline constexpr uint32_t kSizeInTable = ~uint32_t{0};
constexpr uint32_t stated_size(size_t bytes, const Chunking& chunks, uint64_t capacity) {
  if (chunks.count > 1) return kSizeInTable;
  return wire::size_code(bytes, capacity).value_or(kSizeInTable);
}

struct OutgoingMessage {
  Request* request;
  const MemoryHandle* memory;  // registers the source
  uint64_t buffer;             // number of the receiver's buffer: selects its clear-to-send slot
  uint64_t source;             // address that the HCA reads
  size_t bytes;
  Chunking chunks;
  bool separate_end;  // each chunk ends in a write of its own (adaptive routing)
  // What the end of the only chunk states as the message's size (stated_size), with separate_end.
  uint32_t size_code = kSizeInTable;
  void* parent;  // what is reported to the observer as its origin; null: nothing is

  // Every chunk carries the same immediate data, but for the epoch of its pair: the receiver counts
  // them.
  uint32_t immediate(uint32_t epoch = 0) const {
    if (states_size()) [[unlikely]] {
      return wire::encode(
          {wire::slot_of(buffer), 1, wire::stamp_of(buffer, epoch), false, true, size_code});
    }
    return wire::encode(
        {wire::slot_of(buffer), chunks.count, wire::stamp_of(buffer, epoch), separate_end});
  }
  bool states_size() const { return size_code != kSizeInTable; }
  // Every chunk's completion counts the request's pending chunks down.
  uint64_t wr_id() const { return reinterpret_cast<uint64_t>(request); }
};

// Returns the message of a send, without its request, into a buffer of `capacity` bytes.
inline OutgoingMessage message_of(const Send& send, const Chunking& chunks, bool separate_end,
                                  uint64_t capacity) {
  return {
      .request = nullptr,
      .memory = &send.memory,
      .buffer = send.buffer,
      .source = reinterpret_cast<uint64_t>(send.data),
      .bytes = send.bytes,
      .chunks = chunks,
      .separate_end = separate_end,
      .size_code = separate_end ? stated_size(send.bytes, chunks, capacity) : kSizeInTable,
      .parent = send.parent,
  };
}

}  // namespace gdr::transport

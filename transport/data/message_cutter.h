// How a message is cut into chunks. Each chunk is one RDMA write that ends in the receiver's
// completion queue, or two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

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

// Returns the most bytes of one RDMA write on a port whose largest message that is: a multiple of
// wire::kSplitAlignment.
constexpr size_t max_write_bytes(uint32_t max_message_bytes) {
  return std::max<size_t>(max_message_bytes / wire::kSplitAlignment, 1) * wire::kSplitAlignment;
}

// Returns the most bytes of one message on such a port, however it is sent: every send queue has
// room for that many chunks and their separate ends (kStandbyDepth in send_comm.cc).
inline constexpr size_t kChunksThatFit = 27;
constexpr size_t largest_message(uint32_t max_message_bytes) {
  return kChunksThatFit * max_write_bytes(max_message_bytes);
}

// The same message is cut alike each time, so that its request is all that is kept of it.
struct MessageCutter {
  Chunking cut(size_t bytes) const {
    const uint32_t most = most_chunks(bytes);
    return chunks_for_rails(bytes, paths, std::min(least(), most), max_write_bytes, most);
  }
  // Messages of at most this many bytes are one chunk.
  size_t whole_at_most() const {
    size_t most = max_write_bytes;
    if (paths > 1) most = std::min(most, 2 * kLeastChunkOfRails - 1);
    if (least() > 1) most = std::min(most, wire::kSplitAlignment);
    return most;
  }
  // Of each chunk of a message of so many bytes: one, or two where the end is a write of its own.
  uint32_t work_requests(size_t bytes) const { return bytes > separate_end_above ? 2 : 1; }
  // All of a message must fit on one pair, which may be the last one that is left.
  uint32_t most_chunks(size_t bytes) const {
    return std::min(uint32_t{wire::kMaxQps}, queue_depth / work_requests(bytes));
  }
  uint32_t least() const { return split_data_on_qps ? pairs : 1; }

  size_t max_write_bytes = 0;  // the ports' largest message
  // Larger messages end in a write of their own, which carries their size (adaptive routing).
  size_t separate_end_above = std::numeric_limits<size_t>::max();
  bool split_data_on_qps = false;  // each message is split over all QPs at least
  // Of the connection, once it is made: those that do not stand by, and the work requests that
  // chunks may occupy on one pair.
  uint32_t paths = 1, pairs = 1, queue_depth = 0;
};

}  // namespace gdr::transport

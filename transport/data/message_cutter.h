// How the messages of a connection are cut into chunks, and chunks into writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "transport/data/outgoing_message.h"
#include "transport/data/sent_chunks.h"
#include "transport/data/spread_pairs.h"
#include "transport/pairs/rail_tables.h"

namespace gdr::transport {

// What the ports and the options say about a message.
struct MessageLimits {
  size_t max_write_bytes = 0;  // the ports' largest message
  // Larger messages end in a write of their own, which carries their size (adaptive routing).
  size_t separate_end_above = std::numeric_limits<size_t>::max();
  bool split_data_on_qps = false;  // each message is split over all QPs at least
};

// The same message is cut alike each time, so that its request is all that is kept of it.
class MessageCutter {
 public:
  // tables: with the ring of clear-to-send slots; they outlive it.
  MessageCutter(const RailTables& tables, const MessageLimits& limits, const SpreadPairs& pairs)
      : tables_(tables),
        limits_(limits),
        paths_(pairs.active_paths()),
        least_(limits.split_data_on_qps ? pairs.active_pairs() : 1),
        queue_depth_(pairs.queue_depth()) {}

  const MessageLimits& limits() const { return limits_; }
  // Messages of at most this many bytes are one chunk of one write.
  size_t whole_at_most() const { return whole_for_rails(paths_, least_, limits_.max_write_bytes); }
  const wire::ClearToSend& slot(uint64_t buffer) const {
    return tables_->ring[wire::slot_of(buffer)];
  }

  // Without its request.
  OutgoingMessage cut(const Send& send) const {
    const uint32_t most = most_chunks(send.bytes);
    return make(send, chunks_for_rails(send.bytes, paths_, std::min(least_, most),
                                       limits_.max_write_bytes, most));
  }
  // The same for a message that is one chunk.
  OutgoingMessage keep_whole(const Send& send) const { return make(send, {send.bytes, 1}); }
  // The message of a request that is not complete, as it was made.
  OutgoingMessage message_of(Request& request) const {
    OutgoingMessage message =
        cut({request.bytes[0], request.data, request.first, *request.memory, nullptr});
    message.request = &request;
    return message;
  }

  // Of each chunk of a message of so many bytes.
  uint32_t work_requests(size_t message_bytes) const {
    return message_bytes > limits_.separate_end_above ? 2 : 1;
  }
  SentChunk chunk_at(const OutgoingMessage& message, size_t from) const {
    const size_t bytes = std::min(message.bytes - from, message.chunks.bytes);
    return {message.request, from, bytes, work_requests(message.bytes), 0, nullptr};
  }
  // All of a message must fit on one pair, which may be the last one that is left.
  uint32_t most_chunks(size_t message_bytes) const {
    return std::min(uint32_t{wire::kMaxQps}, queue_depth_ / work_requests(message_bytes));
  }
  bool is_too_large(const OutgoingMessage& message) const {
    return message.chunks.bytes > limits_.max_write_bytes;
  }

 private:
  OutgoingMessage make(const Send& send, const Chunking& chunks) const {
    return transport::message_of(send, chunks, send.bytes > limits_.separate_end_above,
                                 slot(send.buffer).bytes);
  }

  const RailTables& tables_;
  const MessageLimits limits_;
  const uint32_t paths_, least_, queue_depth_;
};

}  // namespace gdr::transport

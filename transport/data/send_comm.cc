#include "transport/data/send_comm.h"

#include <algorithm>

#include "transport/data/chunk_write.h"

namespace gdr::transport {

// Returns the buffer of the group at the head, of which `first` is the first slot and has arrived,
// that has the tag and is still to be served; none while its clear-to-send has not arrived.
inline std::optional<uint64_t> SendComm::match(const wire::ClearToSend& first, int tag) {
  const int count = first.group;
  if (count < 1 || count > wire::kMaxGroup) {
    connection_.fail(Code::kInternal, "the peer's clear-to-send names a group of impossible size");
    return {};
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t buffer = head_ + i;
    const wire::ClearToSend& candidate = slot(buffer);
    if ((served_ >> i & 1) == 0 && has_arrived(candidate, buffer) && candidate.tag == tag) {
      return buffer;
    }
  }
  return {};
}

// Marks a buffer as served; with the last of its group, the head moves on to the next group.
inline void SendComm::advance(uint64_t buffer) {
  int count = slot(head_).group;
  served_ |= 1u << (buffer - head_);
  if (++served_count_ < count) return;
  served_ = 0;
  served_count_ = 0;
  head_ += count;
}

// Returns null when all are in use.
inline Request* SendComm::take_request(size_t bytes, const Chunking& chunks) {
  Request* taken = requests_.take();
  if (taken == nullptr) return nullptr;
  taken->pending = static_cast<uint16_t>(chunks.count);
  taken->bytes[0] = bytes;
  return taken;
}

// Most messages are the only one of their receive and go as one write, which is all that is done
// here: one comparison stands for all checks of the slot's group and flags, and nothing is kept of
// the message.
bool SendComm::isend_direct(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                            Request** request) {
  const uint64_t buffer = head_;
  const wire::ClearToSend& to = slot(buffer);
  if (!has_arrived(to, buffer)) {
    *request = nullptr;
    return !connection_.needs_attention() || progress();
  }
  if (!wire::is_plain_alone(to) || to.tag != tag || bytes > to.bytes ||
      bytes > one_write_at_most_) {
    return isend_further(data, bytes, tag, memory, request);
  }
  Request* taken = requests_.take();
  *request = taken;
  if (taken == nullptr) return progress();
  taken->pending = 1;
  taken->bytes[0] = bytes;
  const QueuePair& pair = connection_.rails().next_pair();
  const RdmaWrite write{
      .source = reinterpret_cast<uint64_t>(data),
      .bytes = static_cast<uint32_t>(bytes),
      .lkey = memory.keys[pair.rail].lkey,
      .target = to.address,
      .rkey = to.rkey[pair.peer_rail],
      .cpu_readable = memory.host,
  };
  const uint32_t immediate =
      wire::encode({wire::slot_of(buffer), 1, wire::stamp_of(buffer), /*size_in_table=*/false});
  const int err = write_with_immediate(pair, write, immediate, reinterpret_cast<uint64_t>(taken));
  if (err != 0) [[unlikely]]
    return fail_post(err, request);
  head_ = buffer + 1;
  connection_.link().count_posted();
  return true;
}

bool SendComm::fail_post(int err, Request** request) {
  *request = nullptr;
  connection_.fail_verbs("posting a send", err);
  return false;
}

// Takes the same arguments as isend, so that they stay in their registers.
bool SendComm::isend_further(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                             Request** request) {
  if (spread_ != nullptr) return send_attended({bytes, data, 0, memory, nullptr}, tag, request);
  return send(slot(head_), data, bytes, tag, memory, nullptr, request);
}

bool SendComm::isend_observed(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                              void* parent, Request** request) {
  if (spread_ != nullptr) return send_attended({bytes, data, 0, memory, parent}, tag, request);
  *request = nullptr;
  const wire::ClearToSend& first = slot(head_);
  if (!has_arrived(first, head_)) return !connection_.needs_attention() || progress();
  return send(first, data, bytes, tag, memory, parent, request);
}

// The path of a comm that spreads. As in isend(), one comparison stands for all checks of the slot.
bool SendComm::isend_spread(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                            Request** request) {
  const uint64_t buffer = head_;
  const wire::ClearToSend& to = slot(buffer);
  if (!has_arrived(to, buffer) || !wire::is_plain_alone(to) || to.tag != tag || bytes > to.bytes ||
      !held_.empty() || connection_.needs_attention() || !spread_->sends_whole(bytes))
      [[unlikely]] {
    return isend_further(data, bytes, tag, memory, request);
  }
  SpreadPair* pair = spread_->pair_of_whole();
  Request* taken = pair != nullptr ? requests_.take() : nullptr;
  *request = taken;
  if (taken == nullptr) [[unlikely]]
    return progress();
  head_ = buffer + 1;
  connection_.link().count_posted();
  spread_->send_whole({bytes, data, buffer, memory, nullptr}, to, *pair, taken);
  return true;
}

// The same for all messages.
bool SendComm::send_attended(Send send, int tag, Request** request) {
  *request = nullptr;
  const wire::ClearToSend& first = slot(head_);
  if (!has_arrived(first, head_)) return progress();
  const std::optional<uint64_t> buffer = match(first, tag);
  if (!buffer) return progress();
  send.buffer = *buffer;
  if (!suits(send, slot(*buffer)) && !accepts(send)) [[unlikely]]
    return false;
  const bool sent = first.group > 1 && spread_holds(send)
                        ? spread_->hold(send, is_last_of_group(), request)
                        : spread_->send(send, request);
  if (!sent) return end_observation();
  if (*request == nullptr) return progress();
  if (!held_.empty()) has_waiting_ = true;
  advance(*buffer);
  return true;
}

inline bool SendComm::send(const wire::ClearToSend& first, const void* data, size_t bytes, int tag,
                           const MemoryHandle& memory, void* parent, Request** request) {
  *request = nullptr;
  std::optional<uint64_t> buffer = match(first, tag);
  if (!buffer) return !(connection_.needs_attention() || has_waiting_) || progress();
  const Send asked{bytes, data, *buffer, memory, parent};
  if (!suits(asked, slot(*buffer)) && !accepts(asked)) [[unlikely]]
    return false;
  if (bytes > max_write_bytes_) [[unlikely]]
    return send_large(asked, request);
  const Chunking chunks = chunks_for_pairs(bytes, max_chunks_);
  Request* taken = take_request(bytes, chunks);
  if (taken == nullptr) return progress();
  const bool separate_end = bytes > separate_end_above_;
  const OutgoingMessage message{
      .request = taken,
      .buffer = *buffer,
      .source = reinterpret_cast<uint64_t>(data),
      .bytes = bytes,
      .chunks = chunks,
      .cpu_readable = memory.host,
      .separate_end = separate_end,
      .size_code = separate_end ? stated_size(bytes, chunks, slot(*buffer).bytes) : kSizeInTable,
      .parent = parent,
  };
  const bool grouped = first.group > 1;
  const bool posted = grouped && chunks.count == 1
                          ? hold(message, memory)
                          : (!grouped || post_held()) && post(message, memory);
  if (!posted) return false;
  advance(*buffer);
  connection_.link().count_posted();
  *request = taken;
  return true;
}

// Messages take the QPs in turn, so that several QPs, which switches hash onto different paths,
// share the load even where messages are not split.
inline bool SendComm::post(const OutgoingMessage& message, const MemoryHandle& memory) {
  if (message.chunks.count > 1) return post_chunks(message, memory);
  const QueuePair& pair = connection_.rails().next_pair();
  observe(message, message.bytes, pair);
  return post_chunk(message, 0, message.bytes, pair, memory.keys);
}

bool SendComm::post_chunks(const OutgoingMessage& message, const MemoryHandle& memory) {
  connection_.link().counters().count_further_messages(message.chunks.count - 1);
  for (size_t from = 0; from < message.bytes; from += message.chunks.bytes) {
    const QueuePair& pair = connection_.rails().next_pair();
    const size_t bytes = std::min(message.bytes - from, message.chunks.bytes);
    observe(message, bytes, pair);
    if (!post_chunk(message, from, bytes, pair, memory.keys)) return false;
  }
  return true;
}

// Reports the next chunk, of `bytes` bytes, to the observer. All chunks are reported while NCCL is
// in isend: NCCL 2.26 attaches an event to the step that is current when the event starts.
inline void SendComm::observe(const OutgoingMessage& message, size_t bytes, const QueuePair& pair) {
  if (message.parent != nullptr) [[unlikely]]
    report(message, bytes, pair);
}

inline RdmaWrite SendComm::write_of(const OutgoingMessage& message, size_t from, size_t bytes,
                                    const QueuePair& pair, const MemoryHandle::Keys& keys) const {
  return transport::write_of(message, slot(message.buffer), from, bytes, pair, keys);
}

// Posts the chunk of `bytes` bytes at offset `from`.
inline bool SendComm::post_chunk(const OutgoingMessage& message, size_t from, size_t bytes,
                                 const QueuePair& pair, const MemoryHandle::Keys& keys) {
  const RdmaWrite data = write_of(message, from, bytes, pair, keys);
  const int err = message.separate_end
                      ? post_with_separate_end(message, data, pair)
                      : write_with_immediate(pair, data, message.immediate(), message.wr_id());
  if (err == 0) [[likely]]
    return true;
  connection_.fail_verbs("posting a send", err);
  return false;
}

inline int SendComm::post_with_separate_end(const OutgoingMessage& message, const RdmaWrite& data,
                                            const QueuePair& pair) {
  return transport::post_with_separate_end(
      message, data, pair, {message.immediate(), message.wr_id()}, tables_, connection_.peer());
}

// Whether the message may go into its slot, of which suits() does not know. Fails the connection
// otherwise.
bool SendComm::accepts(const Send& send) {
  const std::optional<Error> rejection = rejection_of(send, slot(send.buffer));
  if (rejection) connection_.fail(rejection->code, rejection->text);
  return !rejection;
}

// Takes a request whose message needs `extra` work requests more than the pool counts for each. A
// null *taken with true: there is no room now.
bool SendComm::take_with_extra(size_t bytes, const Chunking& chunks, size_t extra,
                               Request** taken) {
  *taken = nullptr;
  int wanted = static_cast<int>(extra);
  // With nothing else under way, all entries of the send queue are free for it, and it takes all
  // requests: most_writes() leaves entries for its end and the probe.
  if (requests_.all_free()) wanted = std::min(wanted, requests_.available() - 1);
  // A message that is larger than the usual limit goes alone.
  const int others = requests_.reserved() - held_back_;
  const bool fits = others == 0 || others + wanted <= kExtraWrites;
  if (!fits || requests_.available() <= wanted) return progress();
  *taken = take_request(bytes, chunks);
  (*taken)->extra_chunks = static_cast<uint8_t>(wanted);
  (*taken)->special = kAttended;
  requests_.reserve(wanted);
  return true;
}

// A chunk that needs more writes than this is refused: they would never all have room.
size_t SendComm::most_writes() const { return static_cast<size_t>(send_entries_ - kOtherEntries); }

// Sends a message of which some chunk is larger than the port's largest message. The chunk goes as
// several plain writes, and its end follows in a write of its own, as with adaptive routing: the
// receiver needs no more receives than for other messages. A null *request with true: there is no
// room for it now.
bool SendComm::send_large(const Send& send, Request** request) {
  if (!post_held()) return false;
  const Chunking chunks = chunks_for_pairs(send.bytes, max_chunks_);
  Request* taken;
  const size_t writes = divide_up(chunks.bytes, max_write_bytes_);
  if (writes > most_writes()) return fail_too_large(send.bytes, most_writes() * chunks.count);
  if (!take_with_extra(send.bytes, chunks, writes, &taken)) return false;
  if (taken == nullptr) return true;
  const OutgoingMessage message{
      .request = taken,
      .buffer = send.buffer,
      .source = reinterpret_cast<uint64_t>(send.data),
      .bytes = send.bytes,
      .chunks = chunks,
      .cpu_readable = send.memory.host,
      .separate_end = true,
      .size_code = stated_size(send.bytes, chunks, slot(send.buffer).bytes),
      .parent = send.parent,
  };
  connection_.link().counters().count_further_messages(chunks.count - 1);
  for (size_t from = 0; from < send.bytes; from += chunks.bytes) {
    const size_t end = std::min(send.bytes, from + chunks.bytes);
    const QueuePair& pair = connection_.rails().next_pair();
    observe(message, end - from, pair);
    if (!post_large_chunk(message, from, end, pair, send.memory.keys)) return false;
  }
  advance(send.buffer);
  connection_.link().count_posted();
  *request = taken;
  return true;
}

// Posts the bytes from `from` to `end` of a message and the write that ends them.
bool SendComm::post_large_chunk(const OutgoingMessage& message, size_t from, size_t end,
                                const QueuePair& pair, const MemoryHandle::Keys& keys) {
  int err = 0;
  for (size_t bytes; err == 0 && from < end; from += bytes) {
    bytes = std::min(end - from, max_write_bytes_);
    const RdmaWrite data = write_of(message, from, bytes, pair, keys);
    if (from + bytes == end) {
      err = post_with_separate_end(message, data, pair);
    } else {
      WriteRequest part(pair, data);
      part.wr().wr_id = message.wr_id();
      err = gdr::transport::post(pair, &part.wr());
    }
  }
  if (err == 0) return true;
  connection_.fail_verbs("posting a send", err);
  return false;
}

bool SendComm::progress() {
  if (has_waiting_ && !post_waiting()) [[unlikely]]
    return end_observation();
  if (spread_ != nullptr) return spread_->progress() || end_observation();
  auto request_of = [](const ibv_wc& wc) { return reinterpret_cast<Request*>(wc.wr_id); };
  const bool alive = connection_.poll(
      [this, request_of](const ibv_wc& wc) {
        Request* request = request_of(wc);
        if (request->special != 0) [[unlikely]]
          on_special_completion(request, wc.qp_num);
        if (--request->pending == 0) count_completed(*request);
        return true;
      },
      [request_of](const ibv_wc& wc) { return request_of(wc)->special != 0; });
  return alive || end_observation();
}

inline void SendComm::count_completed(const Request& request) {
  PeerLink& link = connection_.link();
  link.counters().count_bytes(request.bytes[0]);
  link.count_completed();
}

// Called before the completion is counted. Completes those ahead of the request in its chain.
void SendComm::on_special_completion(Request* request, uint32_t qp_number) {
  if ((request->special & kAttended) != 0) on_attended_completion(request, qp_number);
  while (HeldWrites::has_one_ahead(*request)) {
    request = HeldWrites::take_ahead(request);
    if ((request->special & kAttended) != 0) on_attended_completion(request, qp_number);
    request->pending = 0;
    count_completed(*request);
  }
}

void SendComm::on_attended_completion(Request* request, uint32_t qp_number) {
  if (observed_ != nullptr) observed_->completed(requests_.index_of(*request), qp_number);
  if (request->pending > 1) return;
  requests_.reserve(-request->extra_chunks);
  request->extra_chunks = 0;
  request->special &= static_cast<uint8_t>(~kAttended);
}

// Returns false: the connection has failed.
bool SendComm::end_observation() {
  if (observed_ != nullptr) observed_->complete_all();
  return false;
}

// A chunk is one piece of work, even where plain writes go ahead of the write that ends it: only
// that one is signalled, and its completion confirms them.
void SendComm::report(const OutgoingMessage& message, size_t bytes, const QueuePair& pair) {
  const ibv_wr_opcode opcode =
      message.separate_end ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  const ObservedWorkRequest work{static_cast<int>(pair.rail), message.buffer, opcode,
                                 pair.qp->qp_num, bytes};
  if (observed_->posted(requests_.index_of(*message.request), message.parent, work)) {
    message.request->special |= kAttended;
  }
}

bool SendComm::fail_too_large(size_t bytes, size_t most) {
  connection_.fail(Code::kInvalidUsage, too_large_text(bytes, max_write_bytes_, most));
  return false;
}

}  // namespace gdr::transport

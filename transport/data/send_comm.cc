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
  const QueuePair& pair = this->pair();
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
  return send(slot(head_), data, bytes, tag, memory, request);
}

bool SendComm::isend_observed(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                              void* parent, Request** request) {
  return send_attended({bytes, data, 0, memory, parent}, tag, request);
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

// A message that is larger than the port's largest one goes as several plain writes, and its end
// follows in a write of its own, as with adaptive routing: the receiver needs no more receives than
// for other messages.
bool SendComm::send(const wire::ClearToSend& first, const void* data, size_t bytes, int tag,
                    const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  std::optional<uint64_t> buffer = match(first, tag);
  if (!buffer) return !(connection_.needs_attention() || has_waiting_) || progress();
  const Send asked{bytes, data, *buffer, memory, nullptr};
  const bool large = bytes > max_write_bytes_;
  if (!suits(asked, slot(*buffer)) && !accepts(asked)) [[unlikely]]
    return false;
  if (large && !(post_held() && fits(bytes))) [[unlikely]]
    return false;
  Request* taken = large ? take_large(bytes) : requests_.take();
  if (taken == nullptr) return progress();
  taken->pending = 1;
  taken->bytes[0] = bytes;
  OutgoingMessage message =
      message_of(asked, {bytes, 1}, large || bytes > separate_end_above_, slot(*buffer).bytes);
  message.request = taken;
  if (!(first.group > 1 && !large ? hold(message) : post(message))) return false;
  advance(*buffer);
  connection_.link().count_posted();
  *request = taken;
  return true;
}

bool SendComm::post(const OutgoingMessage& message) {
  const ChunkTarget target{slot(message.buffer), pair(), max_write_bytes_, tables_,
                           connection_.peer()};
  const int err =
      post_chunk(message, 0, message.bytes, target, {message.immediate(), message.wr_id()});
  if (err == 0) [[likely]]
    return true;
  connection_.fail_verbs("posting a send", err);
  return false;
}

// Whether the message may go into its slot, of which suits() does not know. Fails the connection
// otherwise.
bool SendComm::accepts(const Send& send) {
  const std::optional<Error> rejection = rejection_of(send, slot(send.buffer));
  if (rejection) connection_.fail(rejection->code, rejection->text);
  return !rejection;
}

// A message that needs more writes is refused: they would never all have room.
bool SendComm::fits(size_t bytes) {
  const auto most = static_cast<size_t>(send_entries_ - kOtherEntries);
  if (divide_up(bytes, max_write_bytes_) <= most) return true;
  connection_.fail(Code::kInvalidUsage, too_large_text(bytes, max_write_bytes_, most));
  return false;
}

// Takes a request whose message needs more work requests than the pool counts for each. Returns
// null while the send queue lacks the room for them.
Request* SendComm::take_large(size_t bytes) {
  auto wanted = static_cast<int>(divide_up(bytes, max_write_bytes_));
  // With nothing else under way, all entries of the send queue are free for it, and it takes all
  // requests: fits() leaves entries for its end and the probe.
  if (requests_.all_free()) wanted = std::min(wanted, requests_.available() - 1);
  // A message that is larger than the usual limit goes alone.
  const int others = requests_.reserved() - held_back_;
  const bool fits = others == 0 || others + wanted <= kExtraWrites;
  if (!fits || requests_.available() <= wanted) return nullptr;
  Request* taken = requests_.take();
  taken->extra_chunks = static_cast<uint8_t>(wanted);
  taken->special = kAttended;
  requests_.reserve(wanted);
  return taken;
}

bool SendComm::progress_spread() {
  if (has_waiting_ && !post_waiting()) [[unlikely]]
    return end_observation();
  return spread_->progress() || end_observation();
}

bool SendComm::progress_direct() {
  if (has_waiting_ && !post_waiting()) [[unlikely]]
    return false;
  auto request_of = [](const ibv_wc& wc) { return reinterpret_cast<Request*>(wc.wr_id); };
  return connection_.poll(
      [this, request_of](const ibv_wc& wc) {
        Request* request = request_of(wc);
        if (request->special != 0) [[unlikely]]
          on_special_completion(request);
        if (--request->pending == 0) count_completed(*request);
        return true;
      },
      [request_of](const ibv_wc& wc) { return request_of(wc)->special != 0; });
}

inline void SendComm::count_completed(const Request& request) {
  PeerLink& link = connection_.link();
  link.counters().count_bytes(request.bytes[0]);
  link.count_completed();
}

// Called before the completion is counted. Completes those ahead of the request in its chain.
void SendComm::on_special_completion(Request* request) {
  give_back_extra(request);
  while (HeldWrites::has_one_ahead(*request)) {
    request = HeldWrites::take_ahead(request);
    request->pending = 0;
    count_completed(*request);
  }
}

void SendComm::give_back_extra(Request* request) {
  requests_.reserve(-request->extra_chunks);
  request->extra_chunks = 0;
  request->special &= static_cast<uint8_t>(~kAttended);
}

// Returns false: the connection has failed.
bool SendComm::end_observation() {
  if (observed_ != nullptr) observed_->complete_all();
  return false;
}

}  // namespace gdr::transport

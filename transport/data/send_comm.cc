#include "transport/data/send_comm.h"

namespace gdr::transport {

// Returns the buffer of the group at the head, of which `first` is the first slot and has arrived,
// that has the tag and is still to be served; none while its clear-to-send has not arrived.
std::optional<uint64_t> SendComm::match(const wire::ClearToSend& first, int tag) {
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
void SendComm::advance(uint64_t buffer) {
  int count = slot(head_).group;
  served_ |= 1u << (buffer - head_);
  if (++served_count_ < count) return;
  served_ = 0;
  served_count_ = 0;
  head_ += count;
}

// Most messages are the only one of their receive and go as one write: one comparison stands for
// all checks of the slot's group and flags. A message counts as posted before the look at what the
// recovery has for this thread: where nothing counts, the watcher may take the news of a loss, and
// bring the pair back (recovery_steps.cc, acts_for_data_path), a second after the loss.
bool SendComm::isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                     Request** request) {
  const uint64_t buffer = head_;
  const wire::ClearToSend& to = slot(buffer);
  if (!has_arrived(to, buffer)) {
    *request = nullptr;
    return spread_->is_quiet(connection_.link()) || progress();
  }
  if (!wire::is_plain_alone(to) || to.tag != tag || bytes > to.bytes ||
      !spread_->sends_whole(bytes)) {
    return isend_further(data, bytes, tag, memory, request);
  }
  SpreadPair* pair = spread_->pair_of_whole();
  Request* taken = pair != nullptr && pair->free > 0 ? requests_.take() : nullptr;
  *request = taken;
  if (taken == nullptr) [[unlikely]]
    return progress();
  connection_.link().count_posted();
  if (connection_.link().needs_attention()) [[unlikely]] {
    connection_.link().take_back_posted();
    requests_.give_back(taken);
    return isend_further(data, bytes, tag, memory, request);
  }
  head_ = buffer + 1;
  if (spread_->send_whole({bytes, data, buffer, memory, nullptr}, to, *pair, taken)) [[likely]]
    return true;
  *request = nullptr;
  return false;
}

// Takes the same arguments as isend, so that they stay in their registers.
bool SendComm::isend_further(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                             Request** request) {
  return send({bytes, data, 0, memory, nullptr}, tag, request);
}

bool SendComm::isend_observed(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                              void* parent, Request** request) {
  return send({bytes, data, 0, memory, parent}, tag, request);
}

// The same for all messages.
bool SendComm::send(Send send, int tag, Request** request) {
  *request = nullptr;
  const wire::ClearToSend& first = slot(head_);
  if (!has_arrived(first, head_)) return progress();
  const std::optional<uint64_t> buffer = match(first, tag);
  if (!buffer) return progress();
  send.buffer = *buffer;
  if (!suits(send, slot(*buffer)) && !accepts(send)) [[unlikely]]
    return false;
  connection_.link().count_posted();
  // A message of a group is held back where nothing about it or the connection is special.
  const bool holds = first.group > 1 && wire::is_plain(slot(*buffer)) && spread_->holds(send.bytes);
  const bool is_last = served_count_ + 1 >= first.group;
  const bool sent = holds ? spread_->hold(send, is_last, request) : spread_->send(send, request);
  if (*request == nullptr) connection_.link().take_back_posted();
  if (!sent) return spread_->end_observation();
  if (*request == nullptr) return progress();
  advance(*buffer);
  return true;
}

// Whether the message may go into its slot, of which suits() does not know. Fails the connection
// otherwise.
bool SendComm::accepts(const Send& send) {
  const std::optional<Error> rejection = rejection_of(send, slot(send.buffer));
  if (rejection) connection_.fail(rejection->code, rejection->text);
  return !rejection;
}

}  // namespace gdr::transport

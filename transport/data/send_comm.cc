#include "transport/data/send_comm.h"

#include <bit>

namespace gdr::transport {
namespace {

constexpr char kNoUserBuffers[] =
    "set NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks";

// Whether one end uses a user's buffer, and the other one of NCCL's own because it has declined a
// user's buffer. NCCL may then send and expect messages of other sizes, or over other channels
// (docs/gpu-memory.md).
bool is_after_decline(const Send& send, const wire::ClearToSend& slot) {
  const uint32_t own_flags = (slot.group_and_flags & wire::kUsersBuffer) != 0
                                 ? send.memory.slot_flags->load(std::memory_order_relaxed)
                                 : (send.memory.is_users() ? slot.group_and_flags : 0u);
  return (own_flags & wire::kAfterDecline) != 0;
}

// Why a send into the slot is refused; nothing: it is not.
std::optional<Error> rejection_of(const Send& send, const wire::ClearToSend& slot) {
  if (send.bytes > slot.bytes) {
    return Error{Code::kInvalidUsage,
                 "a send of " + std::to_string(send.bytes) + " bytes with tag " +
                     std::to_string(slot.tag) + " matches a receive of " +
                     std::to_string(slot.bytes) +
                     " bytes. Fix: call the collective with the same count on all ranks; if they "
                     "do, and register their buffers, " +
                     kNoUserBuffers};
  }
  if (!wire::is_known(slot)) {
    return Error{Code::kInternal, "the peer's clear-to-send has flags of another version"};
  }
  if (!is_after_decline(send, slot)) return {};
  return Error{
      Code::kSystem,
      std::string(send.memory.is_users() ? "the receiver" : "the sender") +
          " has declined a user's buffer, which its HCA cannot register, and the other end uses "
          "one: NCCL may exchange wrong data. Fix: " +
          kNoUserBuffers + "; or see the warning of that end"};
}

}  // namespace

// Returns the buffer of the group at the head, of which `first` is the first slot and has arrived,
// that has the tag and is still to be served; none while its clear-to-send has not arrived.
std::optional<uint64_t> SendComm::match(const wire::ClearToSend& first, int tag) {
  const int count = wire::group_of(first);
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
  const int count = wire::group_of(slot(head_));
  served_ |= 1u << (buffer - head_);
  if (std::popcount(served_) < count) return;
  served_ = 0;
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
  if (to.group_and_flags != 1 || to.tag != tag || bytes > to.bytes ||
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
  if (send.bytes > slot(*buffer).bytes || !wire::is_plain(slot(*buffer))) [[unlikely]] {
    if (const std::optional<Error> rejection = rejection_of(send, slot(*buffer))) {
      connection_.fail(rejection->code, rejection->text);
      return false;
    }
  }
  connection_.link().count_posted();
  // A message of a group is held back where nothing about it or the connection is special.
  const int group = wire::group_of(first);
  const bool holds = group > 1 && wire::is_plain(slot(*buffer)) && spread_->holds(send.bytes);
  const bool is_last = std::popcount(served_) + 1 >= group;
  const bool sent = spread_->send(send, holds, is_last, request);
  if (*request == nullptr) connection_.link().take_back_posted();
  if (!sent) return spread_->end_observation();
  if (*request == nullptr) return progress();
  advance(*buffer);
  return true;
}

}  // namespace gdr::transport

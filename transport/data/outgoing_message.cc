#include "transport/data/outgoing_message.h"

namespace gdr::transport {
namespace {

constexpr char kNoUserBuffers[] =
    "set NCCL_GRAPH_REGISTER=0 and NCCL_LOCAL_REGISTER=0 on all ranks";

// Whether one end uses a user's buffer, and the other one of NCCL's own because it has declined a
// user's buffer. NCCL may then send and expect messages of other sizes, or over other channels
// (docs/gpu-memory.md).
bool is_after_decline(const Send& send, const wire::ClearToSend& slot) {
  const uint32_t own_flags = (slot.flags & wire::kUsersBuffer) != 0
                                 ? send.memory.slot_flags->load(std::memory_order_relaxed)
                                 : (send.memory.is_users() ? slot.flags : 0u);
  return (own_flags & wire::kAfterDecline) != 0;
}

Error oversized(size_t bytes, const wire::ClearToSend& slot) {
  return {Code::kInvalidUsage,
          "a send of " + std::to_string(bytes) + " bytes with tag " + std::to_string(slot.tag) +
              " matches a receive of " + std::to_string(slot.bytes) +
              " bytes. Fix: call the collective with the same count on all ranks; if they do, and "
              "register their buffers, " +
              kNoUserBuffers};
}

}  // namespace

std::optional<Error> rejection_of(const Send& send, const wire::ClearToSend& slot) {
  if (send.bytes > slot.bytes) return oversized(send.bytes, slot);
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

std::string too_large_text(size_t bytes, size_t max_write_bytes, size_t most) {
  return "a send of " + std::to_string(bytes) + " bytes takes too many writes of " +
         std::to_string(max_write_bytes) + " bytes, the port's largest message; the limit is " +
         std::to_string(most) + " writes. Fix: set NCCL_BUFFSIZE lower, or use another HCA";
}

}  // namespace gdr::transport

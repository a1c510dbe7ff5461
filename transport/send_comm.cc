#include "transport/send_comm.h"

#include <endian.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <random>

namespace gdr {
namespace {

constexpr int kInlineBytes = 64;
constexpr int kPollBatch = 8;

bool has_arrived(const wire::ClearToSend& slot, uint64_t sequence) {
  // The HCA writes this word; the slot's other fields are ordered before it.
  auto* word = const_cast<uint64_t*>(&slot.sequence);
  return std::atomic_ref<uint64_t>(*word).load(std::memory_order_acquire) == sequence;
}

uint64_t random_sequence_base() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

SendComm::SendComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher)
    : Comm(std::move(options), watcher), sequence_base_(random_sequence_base()) {}

Result<std::unique_ptr<SendComm>> SendComm::create(const Device& device,
                                                   std::shared_ptr<const TransportOptions> options,
                                                   Watcher* watcher) {
  std::unique_ptr<SendComm> comm(new SendComm(options, watcher));
  RailPlan plan;
  plan.qps = options->qps_per_connection;
  plan.depths = QueueDepths{kRequests, 1, kInlineBytes};
  if (Status status = comm->connection_.add_rail(device, plan); !status) {
    return forward_error(status);
  }
  Result<RegisteredBlock<Ring>> ring = RegisteredBlock<Ring>::create(*device.hca);
  if (!ring) return forward_error(ring);
  comm->ring_ = std::move(*ring);
  if (options->split_data_on_qps) comm->shares_at_most_ = options->qps_per_connection;
  return comm;
}

wire::EndPoint SendComm::end_point(const wire::Secret& secret) const {
  wire::EndPoint end{};
  end.ring_address = reinterpret_cast<uint64_t>(ring_.get());
  end.sequence_base = sequence_base_;
  end.rail[0].ring_rkey = ring_.rkey();
  connection_.describe(secret, &end);
  return end;
}

Status SendComm::connect(const wire::EndPoint& receiver) {
  if (Status status = connection_.accept_peer(receiver); !status) return status;
  queue_pairs_ = connection_.queue_pairs();
  return connection_.connect_queue_pairs(connection_.options().traffic_class);
}

// The slot of the group at the head that carries the tag and is still to be served; null when it
// has not arrived.
const wire::ClearToSend* SendComm::match(int tag) {
  const auto& group = (*ring_)[head_ % wire::kSlots];
  uint64_t sequence = sequence_base_ + head_;
  if (!has_arrived(group[0], sequence)) return nullptr;
  int count = group[0].group;
  if (count < 1 || count > wire::kMaxGroup) {
    connection_.fail(Code::kInternal, "the peer's clear-to-send names a group of impossible size");
    return nullptr;
  }
  for (int i = 0; i < count; ++i) {
    if (group[i].tag == tag && (served_ >> i & 1) == 0 && has_arrived(group[i], sequence)) {
      return &group[i];
    }
  }
  return nullptr;
}

bool SendComm::isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                     Request** request) {
  *request = nullptr;
  const wire::ClearToSend* slot = match(tag);
  if (slot == nullptr) return !connection_.failed();
  if (bytes > slot->bytes) [[unlikely]] {
    fail_oversized(bytes, *slot);
    return false;
  }
  Request* taken = requests_.take();
  if (taken == nullptr) return progress();
  taken->comm = this;
  taken->kind = RequestKind::kSend;
  taken->buffers = 1;
  taken->bytes[0] = bytes;
  if (!post(taken, data, *slot, memory)) return false;
  connection_.link().count_posted();
  *request = taken;
  return true;
}

bool SendComm::post(Request* request, const void* data, const wire::ClearToSend& slot,
                    const MemoryHandle& memory) {
  size_t bytes = request->bytes[0];
  size_t share = bytes;
  uint32_t shares = 1;
  if (shares_at_most_ > 1 && bytes > wire::kSplitAlignment) {
    share = round_up((bytes + shares_at_most_ - 1) / shares_at_most_, wire::kSplitAlignment);
    shares = static_cast<uint32_t>((bytes + share - 1) / share);
  }
  request->pending = static_cast<uint16_t>(shares);

  ibv_sge sge{reinterpret_cast<uint64_t>(data), 0, memory.keys[0].lkey};
  ibv_send_wr wr;
  wr.wr_id = reinterpret_cast<uint64_t>(request);
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma.remote_addr = slot.address;
  wr.wr.rdma.rkey = slot.rkey[0];
  const int buffer = static_cast<int>(&slot - (*ring_)[head_ % wire::kSlots].data());
  wr.imm_data = htobe32(wire::encode({static_cast<uint32_t>(head_ % wire::kSlots),
                                      static_cast<uint32_t>(buffer), shares, wire::lap_of(head_)}));
  for (size_t left = bytes;;) {
    const QueuePair& pair = *queue_pairs_[next_qp_];
    next_qp_ = next_qp_ + 1 == queue_pairs_.size() ? 0 : next_qp_ + 1;
    sge.length = static_cast<uint32_t>(std::min(left, share));
    wr.num_sge = sge.length > 0 ? 1 : 0;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (memory.host && sge.length <= static_cast<uint32_t>(pair.inline_bytes)) {
      wr.send_flags |= IBV_SEND_INLINE;
    }
    ibv_send_wr* bad = nullptr;
    if (int err = ibv_post_send(pair.qp.get(), &wr, &bad); err != 0) [[unlikely]] {
      connection_.fail(Code::kSystem, "posting a send failed with errno " + std::to_string(err));
      return false;
    }
    left -= sge.length;
    if (left == 0) break;
    sge.addr += sge.length;
    wr.wr.rdma.remote_addr += sge.length;
  }
  advance(slot, buffer);
  return true;
}

void SendComm::advance(const wire::ClearToSend& slot, int buffer) {
  served_ |= 1u << buffer;
  if (++served_count_ < slot.group) return;
  served_ = 0;
  served_count_ = 0;
  ++head_;
}

bool SendComm::progress() {
  for (Rail& rail : connection_.rails()) {
    ibv_wc completions[kPollBatch];
    int n = ibv_poll_cq(rail.cq(), kPollBatch, completions);
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = completions[i];
      if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
        connection_.fail_completion(wc);
        return false;
      }
      auto* request = reinterpret_cast<Request*>(wc.wr_id);
      if (--request->pending == 0) connection_.link().count_completed();
    }
    if (n < 0) [[unlikely]] {
      connection_.fail(Code::kSystem, "polling the completion queue failed");
    }
  }
  return !connection_.failed();
}

void SendComm::fail_oversized(size_t bytes, const wire::ClearToSend& slot) {
  connection_.fail(Code::kInvalidUsage,
                   "a send of " + std::to_string(bytes) + " bytes with tag " +
                       std::to_string(slot.tag) + " meets a receive of " +
                       std::to_string(slot.bytes) +
                       " bytes; do all ranks call the collective with the same count?");
}

}  // namespace gdr

#include "transport/data/send_comm.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr int kInlineBytes = 64;
constexpr int kPollBatch = 8;

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

SendComm::~SendComm() {
  if (staged_bytes_ == 0) return;
  GDR_INFO(log::kNet, "%s: sent %llu bytes by way of host memory", connection_.text().c_str(),
           static_cast<unsigned long long>(staged_bytes_));
}

Result<std::unique_ptr<SendComm>> SendComm::create(const Device& device,
                                                   std::shared_ptr<const TransportOptions> options,
                                                   Watcher* watcher) {
  std::unique_ptr<SendComm> comm(new SendComm(options, watcher));
  RailSpec plan;
  plan.qps = options->qps_per_connection;
  const bool separate_ends = options->adaptive_routing.value_or(!device.state.ethernet);
  plan.depths =
      QueueDepths{(separate_ends ? 2 * kRequests : kRequests) + kExtraChunks, 1, kInlineBytes};
  if (Status status = comm->connection_.add_rail(device, plan); !status) {
    return forward_error(status);
  }
  Result<RegisteredBlock<wire::Tables>> tables = RegisteredBlock<wire::Tables>::create(*device.hca);
  if (!tables) return forward_error(tables);
  comm->tables_ = std::move(*tables);
  if (options->split_data_on_qps) comm->max_chunks_ = options->qps_per_connection;
  if (separate_ends) comm->separate_end_above_ = options->adaptive_routing_threshold;
  return comm;
}

wire::EndPoint SendComm::end_point(const wire::Secret& secret) const {
  wire::EndPoint end{};
  end.tables_address = reinterpret_cast<uint64_t>(tables_.get());
  end.sequence_base = sequence_base_;
  end.rail[0].tables_rkey = tables_.rkey();
  connection_.describe(secret, &end);
  return end;
}

Status SendComm::connect(const wire::EndPoint& receiver) {
  if (Status status = connection_.accept_peer(receiver); !status) return status;
  queue_pairs_ = connection_.queue_pairs();
  return connection_.connect_queue_pairs(connection_.options().traffic_class);
}

std::string SendComm::text() const {
  std::string text = connection_.text() + ", " + std::to_string(queue_pairs_.size()) + " QP(s)";
  if (max_chunks_ > 1) text += ", messages split over them";
  if (separate_end_above_ == std::numeric_limits<size_t>::max()) return text;
  return text + ", adaptive routing above " + std::to_string(separate_end_above_) + " bytes";
}

bool SendComm::has_arrived(uint64_t buffer) const {
  return load_hca_written(slot(buffer).sequence) == sequence_base_ + buffer;
}

// The buffer of the group at the head that has the tag and is still to be served; none when its
// clear-to-send has not arrived.
inline std::optional<uint64_t> SendComm::match(int tag) {
  if (!has_arrived(head_)) return {};
  int count = slot(head_).group;
  if (count < 1 || count > wire::kMaxGroup) {
    connection_.fail(Code::kInternal, "the peer's clear-to-send names a group of impossible size");
    return {};
  }
  for (int i = 0; i < count; ++i) {
    uint64_t buffer = head_ + i;
    if ((served_ >> i & 1) == 0 && has_arrived(buffer) && slot(buffer).tag == tag) return buffer;
  }
  return {};
}

inline Request* SendComm::take_request(size_t bytes) {
  Request* taken = requests_.take();
  if (taken == nullptr) return nullptr;
  taken->comm = this;
  taken->kind = RequestKind::kSend;
  taken->buffers = 1;
  taken->extra_chunks = 0;
  taken->bytes[0] = bytes;
  return taken;
}

inline const QueuePair* SendComm::next_queue_pair() {
  const QueuePair* pair = queue_pairs_[next_qp_];
  next_qp_ = next_qp_ + 1 == queue_pairs_.size() ? 0 : next_qp_ + 1;
  return pair;
}

inline void SendComm::advance(uint64_t buffer) {
  int count = slot(head_).group;
  served_ |= 1u << (buffer - head_);
  if (++served_count_ < count) return;
  served_ = 0;
  served_count_ = 0;
  head_ += count;
}

inline bool SendComm::post(Request* request, const void* data, uint64_t buffer,
                           const MemoryHandle& memory) {
  size_t bytes = request->bytes[0];
  size_t chunk = bytes;
  uint32_t chunks = 1;
  if (max_chunks_ > 1 && bytes > wire::kSplitAlignment) {
    chunk = round_up((bytes + max_chunks_ - 1) / max_chunks_, wire::kSplitAlignment);
    chunks = static_cast<uint32_t>((bytes + chunk - 1) / chunk);
  }
  request->pending = static_cast<uint16_t>(chunks);

  const uint32_t index = wire::slot_of(buffer);
  const bool separate_end = bytes > separate_end_above_;

  ibv_sge data_sge{reinterpret_cast<uint64_t>(data), 0, memory.keys[0].lkey};
  ibv_send_wr end;  // the request that carries the immediate data
  end.wr_id = reinterpret_cast<uint64_t>(request);
  end.next = nullptr;
  end.sg_list = &data_sge;
  end.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  end.wr.rdma.remote_addr = slot(buffer).address;
  end.wr.rdma.rkey = slot(buffer).rkey[0];
  end.imm_data = htobe32(wire::encode({index, chunks, wire::generation_of(buffer), separate_end}));
  ibv_send_wr* first = &end;  // the request that carries the data
  ibv_sge size_sge;
  ibv_send_wr data_only;
  if (separate_end) {
    data_only = end;
    data_only.next = &end;
    data_only.opcode = IBV_WR_RDMA_WRITE;
    first = &data_only;
    uint64_t& size = tables_->sizes[index];
    size = bytes;
    size_sge = {reinterpret_cast<uint64_t>(&size), sizeof(size), tables_.lkey()};
    end.sg_list = &size_sge;
    end.num_sge = 1;
    end.wr.rdma.remote_addr = connection_.peer().tables_address + tables_.offset_of(size);
    end.wr.rdma.rkey = connection_.peer().rail[0].tables_rkey;
  }
  for (size_t left = bytes;;) {
    const QueuePair& pair = *next_queue_pair();
    const auto inline_bytes = static_cast<uint32_t>(pair.inline_bytes);
    data_sge.length = static_cast<uint32_t>(std::min(left, chunk));
    first->num_sge = data_sge.length > 0 ? 1 : 0;
    first->send_flags = memory.host && data_sge.length <= inline_bytes ? IBV_SEND_INLINE : 0;
    if (separate_end) end.send_flags = sizeof(uint64_t) <= inline_bytes ? IBV_SEND_INLINE : 0;
    end.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (int err = ibv_post_send(pair.qp.get(), first, &bad); err != 0) [[unlikely]] {
      connection_.fail(Code::kSystem, "posting a send failed with errno " + std::to_string(err));
      return false;
    }
    left -= data_sge.length;
    if (left == 0) break;
    data_sge.addr += data_sge.length;
    first->wr.rdma.remote_addr += data_sge.length;
  }
  advance(buffer);
  return true;
}

bool SendComm::isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                     Request** request) {
  *request = nullptr;
  std::optional<uint64_t> buffer = match(tag);
  if (!buffer) return !connection_.failed();
  if (bytes > slot(*buffer).bytes) [[unlikely]] {
    fail_oversized(bytes, slot(*buffer));
    return false;
  }
  const bool staged = bytes > memory.direct_at_most;
  if (staged || (bytes > 0 && slot(*buffer).chunked != 0)) [[unlikely]] {
    return send_chunked(bytes, data, *buffer, memory, request);
  }
  Request* taken = take_request(bytes);
  if (taken == nullptr) return progress();
  if (!post(taken, data, *buffer, memory)) return false;
  connection_.link().count_posted();
  *request = taken;
  return true;
}

// A message that is staged on either side. With several shares, copies and the wire work at the
// same time; a null *request: no room for it now.
bool SendComm::send_chunked(size_t bytes, const void* data, uint64_t buffer,
                            const MemoryHandle& memory, Request** request) {
  const bool staged = bytes > memory.direct_at_most;
  const size_t at_least = (bytes + wire::kMaxChunks - 1) / wire::kMaxChunks;
  const size_t chunk = std::max(wire::kMinChunkBytes, round_up(at_least, wire::kSplitAlignment));
  const auto count = static_cast<uint32_t>((bytes + chunk - 1) / chunk);
  const int more = static_cast<int>(count) - 1;
  const bool full = staged && staged_end_ - staged_begin_ == kStagedSends;
  if (full || extra_chunks_ + more > kExtraChunks) return progress();
  Request* taken = take_request(bytes);
  if (taken == nullptr) return progress();
  taken->extra_chunks = static_cast<uint8_t>(more);
  taken->pending = static_cast<uint16_t>(count);
  extra_chunks_ += more;
  ChunkedSend chunks{};
  chunks.request = taken;
  chunks.source = staged ? memory.staging->host(data) : static_cast<const std::byte*>(data);
  chunks.lkey = staged ? memory.staging_keys[0].lkey : memory.keys[0].lkey;
  chunks.slot = wire::slot_of(buffer);
  chunks.generation = wire::generation_of(buffer);
  chunks.may_inline = staged || memory.host;
  chunks.chunk_bytes = static_cast<uint32_t>(chunk);
  chunks.count = count;
  chunks.pair = next_queue_pair();
  connection_.link().count_posted();  // before a launch, which the driver may keep waiting
  if (staged) {
    if (!launch_copies(data, memory, &chunks)) return false;
    staged_[staged_end_++ % kStagedSends] = chunks;
  } else {
    while (chunks.posted < chunks.count) {
      if (!post_chunk(&chunks)) return false;
    }
  }
  advance(buffer);
  *request = taken;
  return true;
}

bool SendComm::launch_copies(const void* data, const MemoryHandle& memory, ChunkedSend* chunks) {
  const size_t bytes = chunks->request->bytes[0];
  std::byte* to = memory.staging->host(data);
  chunks->stream = memory.staging->stream();
  PeerLink::InDriver in_driver(connection_.link());
  for (size_t from = 0; from < bytes; from += chunks->chunk_bytes) {
    size_t part = std::min<size_t>(chunks->chunk_bytes, bytes - from);
    Result<uint64_t> ticket =
        chunks->stream->copy(to + from, static_cast<const std::byte*>(data) + from, part);
    if (!ticket) [[unlikely]] {
      connection_.fail(ticket.error().code, ticket.error().text);
      return false;
    }
    if (from == 0) chunks->first_ticket = *ticket;
  }
  staged_bytes_ += bytes;
  return true;
}

// Sends what has been copied, in order.
bool SendComm::post_copied_chunks() {
  PeerLink::InDriver in_driver(connection_.link());
  for (; staged_begin_ != staged_end_; ++staged_begin_) {
    ChunkedSend& chunks = staged_[staged_begin_ % kStagedSends];
    while (chunks.posted < chunks.count) {
      Result<bool> copied = chunks.stream->done(chunks.first_ticket + chunks.posted);
      if (!copied) [[unlikely]] {
        connection_.fail(copied.error().code, copied.error().text);
        return false;
      }
      connection_.link().set_awaits_copy(!*copied);
      if (!*copied) return true;
      if (!post_chunk(&chunks)) return false;
    }
  }
  return true;
}

bool SendComm::post_chunk(ChunkedSend* chunks) {
  const size_t from = size_t{chunks->chunk_bytes} * chunks->posted;
  const auto bytes = static_cast<uint32_t>(
      std::min<size_t>(chunks->chunk_bytes, chunks->request->bytes[0] - from));
  const wire::ClearToSend& entry = tables_->ring[chunks->slot];
  ibv_sge sge{reinterpret_cast<uint64_t>(chunks->source + from), bytes, chunks->lkey};
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<uint64_t>(chunks->request);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (chunks->may_inline && bytes <= static_cast<uint32_t>(chunks->pair->inline_bytes)) {
    wr.send_flags |= IBV_SEND_INLINE;
  }
  wr.imm_data = htobe32(wire::encode({chunks->slot, chunks->count, chunks->generation, false}));
  wr.wr.rdma.remote_addr = entry.address + from;
  wr.wr.rdma.rkey = entry.rkey[0];
  ibv_send_wr* bad = nullptr;
  if (int err = ibv_post_send(chunks->pair->qp.get(), &wr, &bad); err != 0) [[unlikely]] {
    connection_.fail(Code::kSystem, "posting a send failed with errno " + std::to_string(err));
    return false;
  }
  ++chunks->posted;
  return true;
}

bool SendComm::progress() {
  if (staged_begin_ != staged_end_ && !post_copied_chunks()) [[unlikely]]
    return false;
  for (RailEnd& rail : connection_.rails()) {
    ibv_wc completions[kPollBatch];
    int n = ibv_poll_cq(rail.cq(), kPollBatch, completions);
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = completions[i];
      if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
        connection_.fail_completion(wc);
        return false;
      }
      auto* request = reinterpret_cast<Request*>(wc.wr_id);
      if (--request->pending == 0) {
        extra_chunks_ -= request->extra_chunks;
        connection_.link().count_completed();
      }
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

}  // namespace gdr::transport

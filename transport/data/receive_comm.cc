#include "transport/data/receive_comm.h"

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr int kPollBatch = 8;

// Each arriving share takes one receive of its QP. At most kReceives groups of kMaxGroup messages
// are under way, and a QP carries at most one share of each; the rest lets refills be batched.
// Large staged messages have more shares: should they ever exceed this, the sender waits and tries
// again.
constexpr int kRefill = 64;
constexpr int kReceiveDepth = ReceiveComm::kReceives * wire::kMaxGroup + 2 * kRefill;

// Clear-to-send writes are signalled one in kSignalEvery, which confirms those before it too.
constexpr int kSignalEvery = 16;
constexpr int kClearToSendDepth = 128;
constexpr int kWritesPerAnnouncement = 2;  // at most, where the ring comes round

// While the sender knows of kPlenty receives that are not complete, news of further ones waits
// until there are kAnnouncedTogether: a full pipeline then costs a third of the writes. NCCL keeps
// up to 8 receives posted, of which the sender always knows 5 or more.
constexpr int kAnnounceBelow = 4;
constexpr int kAnnounceBatch = 3;
constexpr int kInlineBytes = kAnnounceBatch * sizeof(wire::ClearToSend);

constexpr char kUnexpectedData[] = "data arrived for a receive that is not posted";

}  // namespace

ReceiveComm::ReceiveComm(std::shared_ptr<const TransportOptions> options, Watcher* watcher)
    : Comm(std::move(options), watcher) {}

ReceiveComm::~ReceiveComm() {
  if (staged_bytes_ == 0) return;
  GDR_INFO(log::kNet, "%s: received %llu bytes by way of host memory", connection_.text().c_str(),
           static_cast<unsigned long long>(staged_bytes_));
}

Result<std::unique_ptr<ReceiveComm>> ReceiveComm::create(
    const Device& device, std::shared_ptr<const TransportOptions> options, Watcher* watcher,
    int qps) {
  std::unique_ptr<ReceiveComm> comm(new ReceiveComm(options, watcher));
  RailSpec plan;
  plan.qps = qps;
  plan.depths = QueueDepths{kClearToSendDepth, kReceiveDepth, kInlineBytes};
  plan.extra_completions = kFlushes;
  if (Status status = comm->connection_.add_rail(device, plan); !status) {
    return forward_error(status);
  }
  Result<RegisteredBlock<wire::Tables>> tables = RegisteredBlock<wire::Tables>::create(*device.hca);
  if (!tables) return forward_error(tables);
  comm->tables_ = std::move(*tables);
  if (!options->flush_disabled) {
    Result<Flush> flush = Flush::create(comm->connection_.rails().front(), *options, kFlushes);
    if (!flush) return forward_error(flush);
    comm->flush_.emplace(std::move(*flush));
  }
  comm->queue_pairs_ = comm->connection_.queue_pairs();
  comm->consumed_.assign(qps, 0);
  if (Status status = comm->post_all_receives(); !status) return forward_error(status);
  return comm;
}

wire::EndPoint ReceiveComm::end_point(const wire::Secret& secret) const {
  wire::EndPoint end{};
  end.tables_address = reinterpret_cast<uint64_t>(tables_.get());
  end.rail[0].tables_rkey = tables_.rkey();
  connection_.describe(secret, &end);
  return end;
}

Status ReceiveComm::connect(const wire::EndPoint& sender) {
  if (Status status = connection_.accept_peer(sender); !status) return status;
  return connection_.connect_queue_pairs(connection_.options().clear_to_send_traffic_class);
}

Status ReceiveComm::post_all_receives() {
  for (int qp = 0; qp < static_cast<int>(queue_pairs_.size()); ++qp) {
    for (int posted = 0; posted < kReceiveDepth; posted += kRefill) {
      if (!post_receives(qp, kRefill)) {
        return gdr::fail(Code::kSystem, "posting receives on a new QP failed");
      }
    }
  }
  return {};
}

// wr_id of a receive is its QP's index, so that an arrival says which QP to refill.
bool ReceiveComm::post_receives(int qp, int count) {
  ibv_recv_wr requests[kRefill] = {};
  for (int i = 0; i < count; ++i) {
    requests[i].wr_id = static_cast<uint64_t>(qp);
    requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(queue_pairs_[qp]->qp.get(), requests, &bad) == 0;
}

bool ReceiveComm::irecv(const ReceiveBuffer* buffers, int count, Request** request) {
  *request = nullptr;
  if (unconfirmed_ >= kClearToSendDepth - kWritesPerAnnouncement) return progress();
  for (int i = 0; i < count; ++i) {
    const uint32_t slot = wire::slot_of(head_ + i);
    const bool is_copied = staged_count_ > 0 && staged_[slot].request != nullptr;
    if (slots_[slot] != nullptr || is_copied) return progress();
  }
  if (connection_.failed()) [[unlikely]]
    return false;
  Request* taken = receives_.take();
  if (taken == nullptr) return progress();
  taken->comm = this;
  taken->kind = RequestKind::kReceive;
  taken->buffers = static_cast<uint8_t>(count);
  taken->pending = static_cast<uint16_t>(count);
  taken->first = head_;
  taken->staged = 0;
  for (int i = 0; i < count; ++i) {
    taken->chunks_seen[i] = 0;
    taken->bytes[i] = 0;
    taken->capacity[i] = buffers[i].bytes;
    const uint32_t slot = wire::slot_of(head_ + i);
    slots_[slot] = taken;
    wire::ClearToSend& entry = tables_->ring[slot];
    const MemoryHandle& memory = *buffers[i].memory;
    entry.address = reinterpret_cast<uint64_t>(buffers[i].data);
    entry.bytes = buffers[i].bytes;
    entry.rkey[0] = memory.keys[0].rkey;
    entry.chunked = 0;
    if (!memory.direct) [[unlikely]]
      stage_buffer(buffers[i], taken, i);
    entry.tag = buffers[i].tag;
    entry.group = static_cast<uint16_t>(count);
    entry.sequence = connection_.peer().sequence_base + head_ + i;
  }
  head_ += count;
  ++waiting_;
  if (!announce()) return false;
  connection_.link().count_posted();
  *request = taken;
  return true;
}

// Tells the sender of the receives that it does not know of, unless that can wait.
bool ReceiveComm::announce() {
  if (waiting_ == 0 || (open_ >= kAnnounceBelow && waiting_ < kAnnounceBatch)) return true;
  uint64_t wrap = announced_ - wire::slot_of(announced_) + wire::kSlots;
  if (!post_clear_to_send(announced_, std::min(head_, wrap))) return false;
  if (wrap < head_ && !post_clear_to_send(wrap, head_)) return false;
  announced_ = head_;
  open_ += std::exchange(waiting_, 0);
  return true;
}

// Of buffers that follow each other in the ring.
bool ReceiveComm::post_clear_to_send(uint64_t first, uint64_t end) {
  const QueuePair& pair = *queue_pairs_[0];
  const wire::ClearToSend& entry = tables_->ring[wire::slot_of(first)];
  auto bytes = static_cast<uint32_t>((end - first) * sizeof(entry));
  ibv_sge sge{reinterpret_cast<uint64_t>(&entry), bytes, tables_.lkey()};
  ibv_send_wr wr;
  wr.wr_id = kSignalEvery;  // writes that its completion confirms
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = ++unconfirmed_ % kSignalEvery == 0 ? IBV_SEND_SIGNALED : 0;
  if (bytes <= static_cast<uint32_t>(pair.inline_bytes)) wr.send_flags |= IBV_SEND_INLINE;
  const wire::EndPoint& peer = connection_.peer();
  wr.wr.rdma.remote_addr = peer.tables_address + tables_.offset_of(entry);
  wr.wr.rdma.rkey = peer.rail[0].tables_rkey;
  ibv_send_wr* bad = nullptr;
  if (int err = ibv_post_send(pair.qp.get(), &wr, &bad); err != 0) [[unlikely]] {
    connection_.fail(Code::kSystem,
                     "posting a clear-to-send failed with errno " + std::to_string(err));
    return false;
  }
  return true;
}

bool ReceiveComm::iflush(const ReceiveBuffer* buffers, int count, Request** request) {
  *request = nullptr;
  if (!flush_.has_value()) return true;
  int last = count - 1;
  while (last >= 0 && buffers[last].bytes == 0) --last;
  const bool in_host_memory =
      last < 0 || buffers[last].memory->host || !buffers[last].memory->direct;
  if (in_host_memory) return true;  // what is staged is in place when its receive is complete
  Request* taken = flushes_.take();
  if (taken == nullptr) {
    // Null would say that there is nothing to wait for.
    connection_.fail(Code::kInvalidUsage,
                     "more than " + std::to_string(kFlushes) + " flushes are outstanding");
    return false;
  }
  taken->comm = this;
  taken->kind = RequestKind::kFlush;
  taken->buffers = 1;
  taken->pending = 1;
  taken->bytes[0] = 0;
  int err = flush_->post(buffers[last].data, buffers[last].memory->keys[0].rkey,
                         reinterpret_cast<uint64_t>(taken));
  if (err != 0) [[unlikely]] {
    connection_.fail(Code::kSystem, "posting a flush failed with errno " + std::to_string(err));
    return false;
  }
  connection_.link().count_posted();
  *request = taken;
  return true;
}

inline bool ReceiveComm::finish_buffer(Request* request) {
  if (--request->pending > 0) return true;
  connection_.link().count_completed();
  --open_;
  return announce();
}

inline bool ReceiveComm::on_arrival(const ibv_wc& wc) {
  wire::Immediate imm = wire::decode(be32toh(wc.imm_data));
  Request* request = slots_[imm.slot];
  if (request == nullptr) return fail_protocol(kUnexpectedData);
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (wire::generation_of(request->first + buffer) != imm.generation)
    return fail_protocol(kUnexpectedData);
  uint64_t& bytes = request->bytes[buffer];
  bytes = imm.size_in_table ? load_hca_written(tables_->sizes[imm.slot]) : bytes + wc.byte_len;
  const size_t max_chunks = std::max<size_t>(queue_pairs_.size(), wire::kMaxChunks);
  if (bytes > request->capacity[buffer] || imm.chunks > max_chunks) {
    return fail_protocol("more data arrived than the receive has room for");
  }
  const bool complete = ++request->chunks_seen[buffer] == imm.chunks;
  if (complete) slots_[imm.slot] = nullptr;
  if ((request->staged >> buffer & 1) != 0) [[unlikely]] {
    if (!copy_on(imm.slot, bytes, complete)) return false;
  } else if (complete && !finish_buffer(request)) {
    return false;
  }
  int qp = static_cast<int>(wc.wr_id);
  if (++consumed_[qp] == kRefill) {
    consumed_[qp] = 0;
    if (!post_receives(qp, kRefill)) return fail_protocol("refilling the receive queue failed");
  }
  return true;
}

inline bool ReceiveComm::on_completion(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    connection_.fail_completion(wc);
    return false;
  }
  switch (wc.opcode) {
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return on_arrival(wc);
    case IBV_WC_RDMA_WRITE:
      unconfirmed_ -= static_cast<int>(wc.wr_id);
      return true;
    case IBV_WC_RDMA_READ:
      --reinterpret_cast<Request*>(wc.wr_id)->pending;
      connection_.link().count_completed();
      return true;
    default:
      return fail_protocol("a completion that nothing here asked for");
  }
}

bool ReceiveComm::progress() {
  if (copying_begin_ != copying_end_ && !finish_copies()) [[unlikely]]
    return false;
  for (RailEnd& rail : connection_.rails()) {
    ibv_wc completions[kPollBatch];
    int n = ibv_poll_cq(rail.cq(), kPollBatch, completions);
    for (int i = 0; i < n; ++i) {
      if (!on_completion(completions[i])) [[unlikely]]
        return false;
    }
    if (n < 0) [[unlikely]] {
      connection_.fail(Code::kSystem, "polling the completion queue failed");
    }
  }
  return !connection_.failed();
}

// The sender is told of the stand-in's memory.
void ReceiveComm::stage_buffer(const ReceiveBuffer& buffer, Request* request, int index) {
  const StagedMemory& staging = *buffer.memory->staging;
  const uint32_t slot = wire::slot_of(request->first + index);
  std::byte* host = staging.host(buffer.data);
  request->staged |= static_cast<uint8_t>(1u << index);
  ++staged_count_;
  staged_[slot] = {request, host, static_cast<std::byte*>(buffer.data), staging.stream(), 0, 0};
  wire::ClearToSend& entry = tables_->ring[slot];
  entry.address = reinterpret_cast<uint64_t>(host);
  entry.rkey[0] = buffer.memory->staging_keys[0].rkey;
  entry.chunked = 1;
}

// Shares of a staged buffer arrive in order: what is new follows what has been copied.
bool ReceiveComm::copy_on(uint32_t slot, uint64_t bytes, bool complete) {
  StagedBuffer& staged = staged_[slot];
  if (complete) copying_[copying_end_++ % wire::kSlots] = static_cast<uint16_t>(slot);
  if (bytes == staged.copied) return true;
  if (bytes < staged.copied) return fail_protocol("a message became shorter while it arrived");
  PeerLink::InDriver in_driver(connection_.link());
  Result<uint64_t> ticket = staged.stream->copy(staged.gpu + staged.copied,
                                                staged.host + staged.copied, bytes - staged.copied);
  if (!ticket) [[unlikely]] {
    connection_.fail(ticket.error().code, ticket.error().text);
    return false;
  }
  staged_bytes_ += bytes - staged.copied;
  staged.copied = bytes;
  staged.ticket = *ticket;
  return true;
}

bool ReceiveComm::finish_copies() {
  PeerLink::InDriver in_driver(connection_.link());
  for (; copying_begin_ != copying_end_; ++copying_begin_) {
    StagedBuffer& staged = staged_[copying_[copying_begin_ % wire::kSlots]];
    Result<bool> done = staged.stream->done(staged.ticket);
    if (!done) [[unlikely]] {
      connection_.fail(done.error().code, done.error().text);
      return false;
    }
    connection_.link().set_awaits_copy(!*done);
    if (!*done) return true;
    Request* request = std::exchange(staged.request, nullptr);
    --staged_count_;
    if (!finish_buffer(request)) return false;
  }
  return true;
}

void ReceiveComm::release(Request* request) {
  if (request->kind == RequestKind::kFlush) {
    flushes_.give_back(request);
  } else {
    receives_.give_back(request);
  }
}

bool ReceiveComm::fail_protocol(const char* what) {
  connection_.fail(Code::kInternal, what);
  return false;
}

}  // namespace gdr::transport

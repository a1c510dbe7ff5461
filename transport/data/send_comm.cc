#include "transport/data/send_comm.h"

#include <algorithm>
#include <random>

namespace gdr::transport {
namespace {

constexpr int kInlineBytes = 64;

uint64_t random_sequence_base() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

}  // namespace

SendComm::SendComm(std::shared_ptr<const ConnectionOptions> options, Watcher* watcher)
    : Comm(std::move(options), watcher, /*sends=*/true), sequence_base_(random_sequence_base()) {}

Result<std::unique_ptr<SendComm>> SendComm::create(const Device& device,
                                                   std::shared_ptr<const ConnectionOptions> options,
                                                   Watcher* watcher) {
  std::unique_ptr<SendComm> comm(new SendComm(options, watcher));
  const bool separate_ends = options->adaptive_routing.value_or(!device.state.ethernet);
  RailSpec spec;
  spec.qps = options->qps_per_connection;
  spec.depths =
      QueueDepths{(separate_ends ? 2 * kRequests : kRequests) + kExtraChunks + Connection::kProbes,
                  1, kInlineBytes};
  if (Status status = comm->connection_.add_rail(device, spec); !status) {
    return forward_error(status);
  }
  Result<RailTables> tables = RailTables::create(comm->connection_.rails());
  if (!tables) return forward_error(tables);
  comm->tables_ = std::move(*tables);
  if (options->split_data_on_qps) {
    comm->max_chunks_ = static_cast<uint32_t>(comm->connection_.rails().pair_count());
  }
  if (separate_ends) comm->separate_end_above_ = options->adaptive_routing_threshold;
  if (Result<bool> prepared = comm->prepare(); !prepared) return forward_error(prepared);
  return comm;
}

wire::EndPoint SendComm::end_point(const wire::Secret& secret) const {
  wire::EndPoint end{};
  end.sequence_base = sequence_base_;
  connection_.describe(secret, &end);
  tables_.describe(&end);
  return end;
}

Result<bool> SendComm::connect(const wire::EndPoint& receiver) {
  if (Status status = connection_.accept_peer(receiver); !status) return forward_error(status);
  const ConnectionOptions& options = connection_.options();
  connection_.begin_connecting({options.service_level, options.traffic_class});
  return connect_step();
}

std::string SendComm::text() const {
  std::string text =
      connection_.text() + ", " + std::to_string(connection_.rails().pair_count()) + " QP(s)";
  if (max_chunks_ > 1) text += ", messages split over them";
  if (separate_end_above_ == std::numeric_limits<size_t>::max()) return text;
  return text + ", adaptive routing above " + std::to_string(separate_end_above_) + " bytes";
}

bool SendComm::has_arrived(uint64_t buffer) const {
  return load_hca_written(slot(buffer).sequence) == sequence_base_ + buffer;
}

// Returns the buffer of the group at the head that has the tag and is still to be served; none
// while its clear-to-send has not arrived.
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
  taken->comm = this;
  taken->kind = RequestKind::kSend;
  taken->buffers = 1;
  taken->extra_chunks = 0;
  taken->pending = static_cast<uint16_t>(chunks.count);
  taken->bytes[0] = bytes;
  return taken;
}

bool SendComm::isend(const void* data, size_t bytes, int tag, const MemoryHandle& memory,
                     Request** request) {
  *request = nullptr;
  std::optional<uint64_t> buffer = match(tag);
  if (!buffer) return !connection_.needs_attention() || progress();
  if (bytes > slot(*buffer).bytes) [[unlikely]] {
    fail_oversized(bytes, slot(*buffer));
    return false;
  }
  const bool staged = bytes > memory.direct_at_most;
  if (staged || (bytes > 0 && !wire::is_plain(slot(*buffer)))) [[unlikely]] {
    return send_staged(bytes, data, *buffer, memory, request);
  }
  const Chunking chunks = chunks_for_pairs(bytes, max_chunks_);
  Request* taken = take_request(bytes, chunks);
  if (taken == nullptr) return progress();
  const OutgoingMessage message{
      .request = taken,
      .buffer = *buffer,
      .source = reinterpret_cast<uint64_t>(data),
      .bytes = bytes,
      .chunks = chunks,
      .cpu_readable = memory.host,
      .separate_end = bytes > separate_end_above_,
  };
  if (!post(message, memory)) return false;
  advance(*buffer);
  connection_.link().count_posted();
  *request = taken;
  return true;
}

// Messages take the QPs in turn, so that several QPs, which switches hash onto different paths,
// share the load even where messages are not split.
inline bool SendComm::post(const OutgoingMessage& message, const MemoryHandle& memory) {
  if (message.chunks.count > 1) return post_chunks(message, memory, /*one_pair=*/false);
  return post_chunk(message, 0, message.bytes, connection_.rails().next_pair(), memory.keys);
}

// Chunks of a split message take the QPs in turn, those of a staged one stay on one QP, in order.
bool SendComm::post_chunks(const OutgoingMessage& message, const MemoryHandle& memory,
                           bool one_pair) {
  const QueuePair* pair = nullptr;
  for (size_t from = 0; from < message.bytes; from += message.chunks.bytes) {
    if (pair == nullptr || !one_pair) pair = &connection_.rails().next_pair();
    const size_t bytes = std::min(message.bytes - from, message.chunks.bytes);
    if (!post_chunk(message, from, bytes, *pair, memory.keys)) return false;
  }
  return true;
}

// Posts the chunk of `bytes` bytes at offset `from`.
inline bool SendComm::post_chunk(const OutgoingMessage& message, size_t from, size_t bytes,
                                 const QueuePair& pair, const MemoryHandle::Keys& keys) {
  const wire::ClearToSend& to = slot(message.buffer);
  const RdmaWrite data{
      .source = message.source + from,
      .bytes = static_cast<uint32_t>(bytes),
      .lkey = keys[pair.rail].lkey,
      .target = to.address + from,
      .rkey = to.rkey[pair.peer_rail],
      .cpu_readable = message.cpu_readable,
  };
  const int err = message.separate_end
                      ? post_with_separate_end(message, data, pair)
                      : write_with_immediate(pair, data, message.immediate(), message.wr_id());
  if (err == 0) [[likely]]
    return true;
  connection_.fail_verbs("posting a send", err);
  return false;
}

// Where the fabric routes adaptively, the packets of a plain write can take several paths, as the
// HCA may place them in any order. A write with immediate does not profit: it consumes a receive
// and completes at the receiver, in order. So the data goes first as a plain write, and its end
// follows on the same QP as a write with immediate of 8 bytes. RC executes requests in order, so
// that the receiver sees the end only after all of the data (NCCL's net_ib, p2p.cc, splits a
// message the same way above NCCL_IB_AR_THRESHOLD). The completion has no byte count of the data;
// the 8 bytes are the message's size, written to the slot's entry of the receiver's size table.
inline int SendComm::post_with_separate_end(const OutgoingMessage& message, const RdmaWrite& data,
                                            const QueuePair& pair) {
  uint64_t* size = &tables_->sizes[wire::slot_of(message.buffer)];
  *size = message.bytes;
  WriteRequest data_only(pair, data);
  data_only.wr().wr_id = message.wr_id();
  return write_with_immediate(pair, tables_.copy_to_peer(size, 1, connection_.peer(), pair),
                              message.immediate(), message.wr_id(), &data_only);
}

// Sends a message that goes through a bounce buffer at either end, in chunks over one QP. A null
// *request with true: there is no room for it now.
bool SendComm::send_staged(size_t bytes, const void* data, uint64_t buffer,
                           const MemoryHandle& memory, Request** request) {
  if (!wire::is_known(slot(buffer))) {
    connection_.fail(Code::kInternal, "the peer's clear-to-send has flags of another version");
    return false;
  }
  const bool copied_here = bytes > memory.direct_at_most;
  const Chunking chunks = chunks_for_staging(bytes);
  const int extra = static_cast<int>(chunks.count) - 1;
  const bool full = copied_here && staged_.full();
  if (full || extra_chunks_ + extra > kExtraChunks) return progress();
  Request* taken = take_request(bytes, chunks);
  if (taken == nullptr) return progress();
  taken->extra_chunks = static_cast<uint8_t>(extra);
  extra_chunks_ += extra;
  const void* source = copied_here ? memory.staging->host(data) : data;
  const OutgoingMessage message{
      .request = taken,
      .buffer = buffer,
      .source = reinterpret_cast<uint64_t>(source),
      .bytes = bytes,
      .chunks = chunks,
      .cpu_readable = copied_here || memory.host,
      .separate_end = false,
  };
  connection_.link().count_posted();  // before a launch, which the driver may delay
  const bool started = copied_here ? staged_.start(message, data, memory)
                                   : post_chunks(message, memory, /*one_pair=*/true);
  if (!started) return false;
  advance(buffer);
  *request = taken;
  return true;
}

bool SendComm::post_copied_chunks() {
  for (;;) {
    StagedSend* ready;
    if (!staged_.next_copied(&ready)) return false;
    if (ready == nullptr) return true;
    const OutgoingMessage& message = ready->message;
    const size_t from = message.chunks.bytes * ready->posted;
    const size_t bytes = std::min(message.bytes - from, message.chunks.bytes);
    if (!post_chunk(message, from, bytes, *ready->pair, ready->keys)) return false;
    staged_.mark_posted();
  }
}

bool SendComm::progress() {
  if (!staged_.empty() && !post_copied_chunks()) [[unlikely]]
    return false;
  return connection_.poll([this](const ibv_wc& wc) {
    auto* request = reinterpret_cast<Request*>(wc.wr_id);
    if (--request->pending == 0) {
      extra_chunks_ -= request->extra_chunks;
      connection_.link().count_completed();
    }
    return true;
  });
}

void SendComm::fail_oversized(size_t bytes, const wire::ClearToSend& slot) {
  connection_.fail(Code::kInvalidUsage,
                   "a send of " + std::to_string(bytes) + " bytes with tag " +
                       std::to_string(slot.tag) + " matches a receive of " +
                       std::to_string(slot.bytes) +
                       " bytes. Fix: call the collective with the same count on all ranks");
}

}  // namespace gdr::transport

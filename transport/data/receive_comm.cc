#include "transport/data/receive_comm.h"

#include <endian.h>

#include <algorithm>
#include <utility>

namespace gdr::transport {
namespace {

constexpr char kSizeTwice[] = "a message states its size and has bytes or chunks beside that";
constexpr char kUnexpectedData[] = "data arrived for a receive that is not posted";

}  // namespace

// What the slots do with an arrival.
class ReceiveComm::Spread final : public SpreadReceives {
 public:
  explicit Spread(ReceiveComm& comm)
      : SpreadReceives(comm.connection_, comm.announcements_, std::exchange(comm.flush_, {}),
                       comm.of_sender_),
        comm_(comm) {}

 private:
  bool progress_fully() override;
  bool take(const ibv_wc* completions, int count) override;
  bool on_success(const WorkId& id, const ibv_wc& wc);
  uint64_t oldest_incomplete(uint64_t end) const override { return comm_.oldest_incomplete(end); }
  int incomplete_receives(const BufferRange& among) const override {
    return comm_.incomplete_receives(among);
  }

  ReceiveComm& comm_;
};

void ReceiveComm::keep_link(FrameChannel channel, bool direct) {
  connection_.drop_unused();
  connection_.make_recovery(tables_, receives_each_);
  for (const ShortQueue& queue : short_queues_) {
    if (queue.pair >= connection_.rails().pair_count()) continue;  // it was dropped
    connection_.recovery()->arrivals(queue.pair).count_receives(queue.posted - receives_each_);
  }
  connection_.keep_link(std::move(channel), "receiver", direct);
  spread_ = std::make_unique<Spread>(*this);
}

ReceiveComm::~ReceiveComm() {
  connection_.close();
  if (spread_ != nullptr) spread_->flushes().destroy_queue_pairs();
  for (Flush& flush : flush_) flush.destroy_queue_pair();
}

template <class Buffers>
inline bool ReceiveComm::receive_into(const Buffers& buffers, int count, Request** request) {
  *request = nullptr;
  if (!announcements_.has_room() || !slots_are_free(count)) [[unlikely]]
    return wait_for_room();
  if (connection_.failed()) [[unlikely]]
    return false;
  Request* taken = receives_.take();
  if (taken == nullptr) return progress();
  const uint64_t first = head_;
  taken->buffers = static_cast<uint8_t>(count);
  taken->pending = static_cast<uint16_t>(count);
  taken->first = first;
  taken->whole = wire::encode({wire::slot_of(first), 1, wire::stamp_of(first), false});
  size_t sizes = 0;
  int index = 0;
  do {
    const ReceiveBuffer buffer = buffers[index];
    fill_slot(buffer, index, taken);
    sizes |= buffer.bytes;
  } while (++index < count);
  head_ = first + count;
  // Before the sender can know of it: PeerLink::is_idle.
  connection_.link().count_posted();
  if (!announcements_.on_posted(first + count, sizes)) return false;
  *request = taken;
  return true;
}

bool ReceiveComm::wait_for_room() {
  connection_.link().set_awaits_pair(announcements_.is_paused());
  return progress();
}

bool ReceiveComm::irecv(const ReceiveBuffer* buffers, int count, Request** request) {
  return receive_into(buffers, count, request);
}

bool ReceiveComm::irecv(const ReceiveArrays& buffers, Request** request) {
  return receive_into(buffers, buffers.count, request);
}

// The receives of the QPs are posted in advance and belong to no buffer. So what is observed is the
// buffer: from its clear-to-send, which is what this end posts for it, to its last chunk.
bool ReceiveComm::irecv_observed(const ReceiveBuffer* buffers, int count, void* const* parents,
                                 Request** request) {
  if (!irecv(buffers, count, request)) return false;
  if (*request == nullptr || parents == nullptr) return true;
  const QueuePair& pair = connection_.rails().clear_to_send_pair();
  for (int i = 0; i < count; ++i) {
    if (parents[i] == nullptr) continue;
    const uint64_t number = (*request)->first + i;
    const ObservedWorkRequest work{static_cast<int>(pair.rail), number, IBV_WC_RECV_RDMA_WITH_IMM,
                                   pair.number, buffers[i].bytes};
    if (observed_->posted(wire::slot_of(number), parents[i], work)) {
      (*request)->special |= static_cast<uint8_t>(1u << i);
    }
  }
  return true;
}

// Whether the slots of the next `count` buffers are free. They are not when a receive of 512
// buffers before is still incomplete.
inline bool ReceiveComm::slots_are_free(int count) const {
  int i = 0;
  do {
    const uint32_t slot = wire::slot_of(head_ + i);
    if (slots_[slot] != nullptr) return false;
  } while (++i < count);
  return true;
}

// Fills the clear-to-send slot of a request's buffer `index`; nothing of it is written to the
// sender yet.
inline void ReceiveComm::fill_slot(const ReceiveBuffer& buffer, int index, Request* request) {
  const uint64_t number = request->first + index;
  const uint32_t slot = wire::slot_of(number);
  request->chunks_seen[index] = 0;
  request->bytes[index] = 0;
  request->capacity[index] = buffer.bytes;
  slots_[slot] = request;
  wire::ClearToSend& entry = tables_->ring[slot];
  entry.address = reinterpret_cast<uint64_t>(buffer.data);
  entry.bytes = buffer.bytes;
  entry.rkey = rkeys_of(buffer.memory->keys);
  wire::set_group(&entry, request->buffers,
                  buffer.memory->slot_flags->load(std::memory_order_relaxed));
  entry.tag = buffer.tag;
  entry.sequence = connection_.peer().sequence_base + number;
}

// `bytes` are those that were received.
static bool needs_flush(const ReceiveBuffer& buffer) {
  return buffer.bytes > 0 && !buffer.memory->host;
}

bool ReceiveComm::iflush(const ReceiveBuffer* buffers, int count, Request** request) {
  *request = nullptr;
  if (connection_.options().flush_disabled) return true;
  int last = count - 1;
  while (last >= 0 && !needs_flush(buffers[last])) --last;
  if (last < 0) return true;
  SpreadFlushes& reads = spread_->flushes();
  if (reads.empty()) [[unlikely]]
    return fail_without_flush();
  Request* taken = flushes_.take();
  if (taken == nullptr) return fail_too_many_flushes();
  taken->bytes[0] = 0;
  connection_.link().count_posted();
  const ReceiveBuffer& buffer = buffers[last];
  if (!reads.post(taken, flushes_.index_of(*taken), buffer.data, *buffer.memory)) return false;
  *request = taken;
  return true;
}

// A null request would mean that there is nothing to wait for.
bool ReceiveComm::fail_too_many_flushes() {
  connection_.fail(Code::kInvalidUsage,
                   "more than " + std::to_string(kFlushes) + " flushes are outstanding");
  return false;
}

bool ReceiveComm::fail_without_flush() {
  connection_.fail(Code::kInvalidUsage,
                   "received data in GPU memory cannot be flushed: the HCA could register no GPU "
                   "memory when the connection was made. Fix: load nvidia-peermem before the job "
                   "starts");
  return false;
}

// After a failure of the peer: whether flushes are still to be awaited. What they complete counts,
// as NCCL may need nothing else of the peer.
bool ReceiveComm::finishes_flushes() {
  if (observed_ != nullptr) observed_->complete_all();
  return !flushes_.all_free() && connection_.may_finish_local_work();
}

// Most messages are one chunk, for the first buffer of a receive. That all of the immediate is what
// such a one has to carry over a pair in epoch 0 stands for every check of its parts.
inline bool ReceiveComm::is_whole(const Request& request, uint32_t bits, const ibv_wc& wc) {
  return request.whole == bits && request.chunks_seen[0] == 0 && request.special == 0 &&
         wc.byte_len <= request.capacity[0];
}

// Takes the completion of one chunk. Its immediate data names the slot, and the chunks of the whole
// message, of which this is any.
// epoch: of the pair over which it came.
inline bool ReceiveComm::take_chunk(const ibv_wc& wc, uint32_t epoch) {
  const uint32_t bits = be32toh(wc.imm_data);
  if (wire::is_size_coded(bits)) [[unlikely]]
    return take_coded(wc, epoch);
  return take(wire::decode_chunk(bits), wc, epoch);
}

bool ReceiveComm::take_coded(const ibv_wc& wc, uint32_t epoch) {
  return take(wire::decode(be32toh(wc.imm_data)), wc, epoch);
}

inline bool ReceiveComm::take(const wire::Immediate& imm, const ibv_wc& wc, uint32_t epoch) {
  Request* request = slots_[imm.slot];
  if (request == nullptr) return fail_protocol(kUnexpectedData);
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (wire::stamp_of(request->first + buffer, epoch) != imm.stamp)
    return fail_protocol(kUnexpectedData);
  uint64_t& bytes = request->bytes[buffer];
  if (imm.size_is_coded) {
    bytes = wire::size_of_code(imm.size_code, request->capacity[buffer]);
    if (wc.byte_len != 0 || request->chunks_seen[buffer] != 0) return fail_protocol(kSizeTwice);
  } else {
    bytes = imm.size_in_table ? load_hca_written(tables_->sizes[imm.slot]) : bytes + wc.byte_len;
  }
  if (bytes > request->capacity[buffer]) {
    return fail_protocol("more data arrived than the receive has room for");
  }
  if (++request->chunks_seen[buffer] != imm.chunks) return true;
  slots_[imm.slot] = nullptr;
  if (request->special != 0) [[unlikely]]
    end_observation(request, buffer);
  return complete_buffer(request);
}

// The bytes that a chunk has brought. Where the size of a message is in the table, its chunks count
// equal parts, and the one that arrives last what is left, so that the sum is right.
inline uint64_t ReceiveComm::chunk_bytes(const ibv_wc& wc) const {
  const uint32_t bits = be32toh(wc.imm_data);
  if (bits >> 31 == 0) [[likely]]
    return wc.byte_len;
  const wire::Immediate imm = wire::decode(bits);
  const Request* request = slots_[imm.slot];
  if (request == nullptr) return 0;
  const uint32_t buffer = (imm.slot - wire::slot_of(request->first)) % wire::kSlots;
  if (imm.size_is_coded) return wire::size_of_code(imm.size_code, request->capacity[buffer]);
  const uint64_t all = load_hca_written(tables_->sizes[imm.slot]);
  const uint64_t part = all / imm.chunks;
  const bool last = request->chunks_seen[buffer] + 1u == imm.chunks;
  return last ? all - part * (imm.chunks - 1) : part;
}

bool ReceiveComm::progress() {
  ibv_wc completions[SpreadPath::kPollBatch];
  const int count = spread_->poll_quietly(connection_.link(), completions);
  if (count < 0) [[unlikely]]
    return spread_->progress_fully() || finishes_flushes();
  SpreadReceives::Pair& pair = spread_->first_pair();
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const bool success = wc.status == IBV_WC_SUCCESS;
    if (success && take_whole(pair, wc)) [[likely]]
      continue;
    if (!success || wc.wr_id != announcements_.wr_id()) {
      return spread_->take(&wc, count - i) || finishes_flushes();
    }
    announcements_.on_written();
  }
  return true;
}

// Takes the arrival of a message that is one chunk, for the first buffer of a receive, in the
// present epoch of its pair: one comparison stands for all checks of the wr_id, and one for all of
// the immediate. Returns false, without having done anything, where it is another arrival.
inline bool ReceiveComm::take_whole(SpreadReceives::Pair& pair, const ibv_wc& wc) {
  if (wc.wr_id != pair.receive_id) return false;
  const uint32_t bits = be32toh(wc.imm_data);
  Request* request = slots_[wire::decode_chunk(bits).slot];
  if (request == nullptr || !is_whole(*request, bits ^ pair.stamp, wc) ||
      !pair.arrivals->count_one(pair.epoch)) {
    return false;
  }
  spread_->count_arrival(pair, wc.byte_len);
  slots_[wire::decode_chunk(bits).slot] = nullptr;
  request->bytes[0] = wc.byte_len;
  (void)(complete_buffer(request) && spread_->refill_if_due(pair));
  return true;
}

inline bool ReceiveComm::Spread::on_success(const WorkId& id, const ibv_wc& wc) {
  if (id.kind != WorkKind::kReceive) return on_other(id);
  if (comm_.take_whole(pairs_[id.pair], wc)) return true;
  return on_arrival(id, comm_.chunk_bytes(wc), wc, [this](const ibv_wc& one, uint32_t epoch) {
    return comm_.take_chunk(one, epoch);
  });
}

bool ReceiveComm::Spread::progress_fully() {
  const bool news = recovery_.has_news();
  (void)connection_.poll([this](const WorkId& id, const ibv_wc& wc) { return on_success(id, wc); },
                         [this](const ibv_wc& wc) { on_failed_flush(wc); });
  if (news) [[unlikely]]
    take_news();
  (void)set_quiet(uses_only_active());
  return !connection_.failed();
}

bool ReceiveComm::Spread::take(const ibv_wc* completions, int count) {
  connection_.take(
      completions, count, [this](const WorkId& id, const ibv_wc& wc) { return on_success(id, wc); },
      [this](const ibv_wc& wc) { on_failed_flush(wc); });
  return !connection_.failed() || progress_fully();  // what has completed counts
}

// The receive of a buffer that is announced and not complete; null where it is complete. A later
// use of the slot is not announced yet.
const Request* ReceiveComm::incomplete(uint64_t buffer) const {
  const Request* request = slots_[wire::slot_of(buffer)];
  return request != nullptr && request->first <= buffer ? request : nullptr;
}

uint64_t ReceiveComm::oldest_incomplete(uint64_t end) const {
  uint64_t buffer = end - std::min<uint64_t>(end, wire::kSlots);
  while (buffer < end && incomplete(buffer) == nullptr) ++buffer;
  return buffer;
}

int ReceiveComm::incomplete_receives(const BufferRange& among) const {
  int receives = 0;
  const Request* counted = nullptr;
  for (uint64_t buffer = among.first; buffer < among.end; ++buffer) {
    const Request* request = incomplete(buffer);
    if (request != nullptr && std::exchange(counted, request) != request) ++receives;
  }
  return receives;
}

void ReceiveComm::end_observation(Request* request, uint32_t buffer) {
  if ((request->special >> buffer & 1) == 0) return;
  request->special &= static_cast<uint8_t>(~(1u << buffer));
  observed_->completed(wire::slot_of(request->first + buffer));
}

inline bool ReceiveComm::complete_buffer(Request* request) {
  if (--request->pending > 0) return true;
  connection_.link().count_completed();
  return announcements_.on_received();
}

bool ReceiveComm::fail_protocol(const char* what) {
  connection_.fail(Code::kInternal, what);
  return false;
}

}  // namespace gdr::transport

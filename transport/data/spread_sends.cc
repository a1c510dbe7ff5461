#include "transport/data/spread_sends.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gdr::transport {

SpreadSends::SpreadSends(const SpreadOwner& owner, SpreadPairs pairs)
    : SpreadPath(owner.comm->connection().rails()),
      connection_(owner.comm->connection()),
      tables_(*owner.tables),
      requests_(*owner.requests),
      observed_(owner.observed),
      held_(*owner.held),
      recovery_(*connection_.recovery()),
      sequence_base_(owner.sequence_base),
      max_write_bytes_(owner.max_write_bytes),
      separate_end_above_(owner.separate_end_above),
      split_data_on_qps_(owner.split_data_on_qps),
      pairs_(std::move(pairs)),
      whole_at_most_(whole_for_rails(
          pairs_.active_paths(), split_data_on_qps_ ? pairs_.active_pairs() : 1, max_write_bytes_)),
      messages_(kSendRequests),
      failing_since_(kSendRequests) {}

bool SpreadSends::send(const Send& send, Request** request) {
  const Time at = now();
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (connection_.failed()) return false;
  if (!waiting_.empty()) return true;  // what was lost goes first
  const Chunking chunks = cut(send);
  if (chunks.count > wire::kMaxQps) return fail_too_large(send.bytes, wire::kMaxQps);
  Message message = make_message(send, chunks);
  // All of it must fit on one pair, which may be the last one that is left.
  const uint32_t work_requests_each = work_requests_for(message.out, chunks.bytes);
  if (chunks.count * work_requests_each > pairs_.queue_depth()) {
    return fail_too_large(send.bytes, pairs_.queue_depth());
  }
  post_held();  // before room is looked for, as that may lose a pair
  if (!pairs_.has_room(chunks.count, work_requests_each) || !take_request(send, message)) {
    return true;
  }
  const Message& kept = messages_[requests_.index_of(*message.out.request)] = message;
  connection_.link().count_posted();
  post_all(kept, at);
  *request = message.out.request;
  return true;
}

bool SpreadSends::send_whole(uint64_t buffer, const void* data, size_t bytes,
                             const MemoryHandle& memory, Request** request) {
  *request = nullptr;
  const Time at = pairs_.choice_needs_time() ? now() : Time{};
  const std::optional<uint32_t> pair = pairs_.choose(bytes, work_requests_of_whole(bytes), at);
  if (!pair) return true;
  const Recorded whole = record_whole({bytes, data, buffer, memory, nullptr}, *pair, at);
  if (whole.message == nullptr) return true;
  post_recorded(*pair, whole.number, *whole.message, whole.chunk);
  *request = whole.message->out.request;
  return true;
}

// Takes a request for a message that is one chunk, and counts it on the pair, which has room.
inline SpreadSends::Recorded SpreadSends::record_whole(const Send& send, uint32_t pair, Time now) {
  Request* taken = requests_.take();
  if (taken == nullptr) return {};
  taken->pending = 1;
  taken->bytes[0] = send.bytes;
  const bool separate = send.bytes > separate_end_above_;
  const size_t index = requests_.index_of(*taken);
  Message& message = messages_[index];
  const Chunking chunks{send.bytes, 1};
  message.out.request = taken;
  message.out.buffer = send.buffer;
  message.out.source = reinterpret_cast<uint64_t>(send.data);
  message.out.bytes = send.bytes;
  message.out.chunks = chunks;
  message.out.cpu_readable = send.memory.host;
  message.out.separate_end = separate;
  message.out.size_code =
      separate ? stated_size(send.bytes, chunks, slot(send.buffer).bytes) : kSizeInTable;
  message.out.parent = send.parent;
  message.keys = &send.memory.keys;
  const SentChunk chunk{.message = static_cast<uint16_t>(index),
                        .work_requests = work_requests_of_whole(send.bytes),
                        .reported_on = static_cast<uint16_t>(pair),
                        .from = 0,
                        .bytes = send.bytes};
  const uint64_t number = pairs_[pair].sent.posted();
  pairs_.push(pair, chunk, now);
  connection_.link().count_posted();
  return {&message, chunk, number};
}

// No time is needed with one active path.
bool SpreadSends::hold(const Send& send, bool last, Request** request) {
  *request = nullptr;
  const uint16_t work_requests = work_requests_of_whole(send.bytes);
  if (!held_.empty() && !pairs_.has_room(pairs_[held_.pair().index], 1, work_requests)) {
    post_held();  // the message waits, or takes another pair at its next attempt
    return true;
  }
  const std::optional<uint32_t> pair = held_.empty()
                                           ? pairs_.choose(send.bytes, work_requests, Time{})
                                           : std::optional(held_.pair().index);
  if (!pair) return true;
  const Recorded whole = record_whole(send, *pair, Time{});
  if (whole.message == nullptr) return true;
  const OutgoingMessage& out = whole.message->out;
  if (out.parent != nullptr) report(out, send.bytes, *pair);
  const QueuePair& qp = *pairs_[*pair].queue_pair;
  const RdmaWrite data = write_of(out, slot(out.buffer), 0, send.bytes, qp, send.memory.keys);
  held_.add(qp, writes_of(out, data, qp, tables_, connection_.peer()),
            end_of(*pair, whole.number, *whole.message));
  if (last || held_.full()) post_held();
  *request = out.request;
  return true;
}

// What the HCA refuses of a chain is lost with the pair, as is what it took and has not completed:
// all of it is recorded.
void SpreadSends::post_held() {
  if (held_.empty()) return;
  const uint32_t pair = held_.pair().index;
  const int err = held_.post();
  if (err != 0) [[unlikely]]
    on_refused(pair, err);
}

Chunking SpreadSends::cut(const Send& send) const {
  const uint32_t least = split_data_on_qps_ ? pairs_.active_pairs() : 1;
  const uint32_t entries_each = send.bytes > separate_end_above_ ? 2 : 1;
  const uint32_t most = std::min(uint32_t{wire::kMaxQps}, pairs_.queue_depth() / entries_each);
  return chunks_for_rails(send.bytes, pairs_.active_paths(), std::min(least, most),
                          max_write_bytes_, most);
}

SpreadSends::Message SpreadSends::make_message(const Send& send, const Chunking& chunks) const {
  const bool separate = send.bytes > separate_end_above_ || chunks.bytes > max_write_bytes_;
  return Message{
      .out = {.request = nullptr,
              .buffer = send.buffer,
              .source = reinterpret_cast<uint64_t>(send.data),
              .bytes = send.bytes,
              .chunks = chunks,
              .cpu_readable = send.memory.host,
              .separate_end = separate,
              .size_code = separate ? stated_size(send.bytes, chunks, slot(send.buffer).bytes)
                                    : kSizeInTable,
              .parent = send.parent},
      .keys = &send.memory.keys,
  };
}

// Returns false when all are in use.
bool SpreadSends::take_request(const Send& send, Message& message) {
  Request* taken = requests_.take();
  if (taken == nullptr) return false;
  taken->pending = static_cast<uint16_t>(message.out.chunks.count);
  taken->bytes[0] = send.bytes;
  message.out.request = taken;
  return true;
}

// A chunk of no bytes is a write as well.
uint32_t SpreadSends::work_requests_for(const OutgoingMessage& message, size_t bytes) const {
  const size_t writes = std::max<size_t>(1, divide_up(bytes, max_write_bytes_));
  return static_cast<uint32_t>(writes + (message.separate_end ? 1 : 0));
}

SentChunk SpreadSends::chunk_at(const Message& message, size_t from) const {
  const size_t bytes = std::min(message.out.bytes - from, message.out.chunks.bytes);
  return SentChunk{
      .message = static_cast<uint16_t>(requests_.index_of(*message.out.request)),
      .work_requests = static_cast<uint16_t>(work_requests_for(message.out, bytes)),
      .reported_on = 0,
      .from = from,
      .bytes = bytes,
  };
}

// There was room for all of it. But a pair may be lost half-way, where the HCA refuses a work
// request; chunks for which there is no room any more then wait with those of that pair.
void SpreadSends::post_all(const Message& message, Time now) {
  std::optional<uint32_t> lost;
  for (uint32_t i = 0; i < message.out.chunks.count; ++i) {
    SentChunk chunk = chunk_at(message, message.out.chunks.bytes * i);
    std::optional<uint32_t> pair = pairs_.choose(chunk.bytes, chunk.work_requests, now);
    if (!pair) pair = lost;
    chunk.reported_on = static_cast<uint16_t>(*pair);
    if (message.out.parent != nullptr) report(message.out, chunk.bytes, *pair);
    post_chunk(message, chunk, *pair, now);
    if (pairs_[*pair].state != PairState::kUsable) lost = pair;
  }
}

// A chunk is one piece of work, even where plain writes go ahead of the write that ends it.
void SpreadSends::report(const OutgoingMessage& message, size_t bytes, uint32_t pair) {
  const QueuePair& qp = *pairs_[pair].queue_pair;
  const ibv_wr_opcode opcode =
      message.separate_end ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  const ObservedWorkRequest work{static_cast<int>(qp.rail), message.buffer, opcode, qp.number,
                                 bytes};
  if (observed_->posted(requests_.index_of(*message.request), message.parent, work)) {
    message.request->special = 1;
  }
}

bool SpreadSends::fail_too_large(size_t bytes, size_t most) {
  connection_.fail(Code::kInvalidUsage, too_large_text(bytes, max_write_bytes_, most));
  return false;
}

// Posts a chunk on a pair, or keeps it with the others of the pair where that is lost. What is held
// has lower numbers and goes first, also where the chunk is one that was lost.
void SpreadSends::post_chunk(const Message& message, const SentChunk& chunk, uint32_t index,
                             Time now) {
  post_held();
  SpreadPair& pair = pairs_[index];
  const uint64_t number = pair.sent.posted();
  pairs_.push(index, chunk, now);
  if (pair.state == PairState::kUsable) post_recorded(index, number, message, chunk);
}

// Posts a chunk that is recorded as the `number`th of a usable pair. Where the HCA refuses it, it
// is one of those that were lost with the pair.
inline void SpreadSends::post_recorded(uint32_t index, uint64_t number, const Message& message,
                                       const SentChunk& chunk) {
  const SpreadPair& pair = pairs_[index];
  const ChunkEnd end = end_of(index, number, message);
  const int err = chunk.bytes > max_write_bytes_
                      ? write_parts(message, chunk, *pair.queue_pair, end)
                      : write_chunk(message, chunk.from, chunk.bytes, *pair.queue_pair, end);
  if (err != 0) [[unlikely]]
    on_refused(index, err);
}

inline ChunkEnd SpreadSends::end_of(uint32_t index, uint64_t number, const Message& message) const {
  const uint32_t epoch = pairs_[index].epoch;
  const WorkId id{WorkKind::kChunk, index, epoch, static_cast<uint32_t>(number)};
  return {message.out.immediate(epoch), encode(id)};
}

void SpreadSends::on_refused(uint32_t index, int err) {
  const SpreadPair& pair = pairs_[index];
  lose(index);
  set_quiet(false);
  (void)connection_.on_failed_post(*pair.queue_pair, pair.epoch, "a send", err);
  // A standby pair may have given its QP up (Recovery::give_way), with the news still to come.
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].state == PairState::kUsable && !recovery_.has_queue_pair(i)) lose(i);
  }
}

// Posts the last write of a chunk, or all of it. Returns an errno value; 0 is success.
inline int SpreadSends::write_chunk(const Message& message, size_t from, size_t bytes,
                                    const QueuePair& pair, ChunkEnd end) {
  const OutgoingMessage& out = message.out;
  const RdmaWrite data = write_of(out, slot(out.buffer), from, bytes, pair, *message.keys);
  if (!out.separate_end) return write_with_immediate(pair, data, end.immediate, end.wr_id);
  return post_with_separate_end(out, data, pair, end, tables_, connection_.peer());
}

// The same for a chunk that is larger than the ports' largest message.
int SpreadSends::write_parts(const Message& message, const SentChunk& chunk, const QueuePair& pair,
                             ChunkEnd end) {
  const OutgoingMessage& out = message.out;
  const wire::ClearToSend& to = slot(out.buffer);
  size_t from = chunk.from;
  size_t left = chunk.bytes;
  for (; left > max_write_bytes_; left -= max_write_bytes_, from += max_write_bytes_) {
    WriteRequest part(pair, write_of(out, to, from, max_write_bytes_, pair, *message.keys));
    part.wr().wr_id = end.wr_id;
    if (int err = post(pair, &part.wr()); err != 0) return err;
  }
  return write_chunk(message, from, left, pair, end);
}

bool SpreadSends::progress_fully() {
  poll();
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (connection_.failed()) [[unlikely]]
    return false;
  if (!waiting_.empty()) [[unlikely]] {
    move_chunks(now());
    if (connection_.failed()) return false;
  }
  set_quiet(pairs_.only_active_path_in_use() && waiting_.empty());
  return !connection_.failed();
}

// The time is that before the queues are read: see RailLoad. A rail of which less than a batch was
// taken has no more.
void SpreadSends::poll() {
  const bool timed = pairs_.acknowledgement_needs_time();
  const Time at = timed ? now() : Time{};
  std::array<int, wire::kMaxRails> taken{};
  const auto on_success = [&](const WorkId& id, const ibv_wc&) {
    ++taken[pairs_[id.pair].queue_pair->rail];
    return this->on_success(id, at);
  };
  (void)connection_.poll_spread(on_success, [](const ibv_wc&) {});
  if (!timed) return;
  for (uint32_t path = 0; path < pairs_.load().size(); ++path) {
    if (taken[pairs_.rail_of(path)] < kPollBatch) pairs_.load().note_poll(path, at);
  }
  if (pairs_.load().has_late_paths()) [[unlikely]]
    report_late_paths();
}

// With one active path and nothing on those that stand by, no time is needed.
bool SpreadSends::take(const ibv_wc* completions, int count) {
  const auto on_success = [this](const WorkId& id, const ibv_wc&) {
    return this->on_success(id, Time{});
  };
  connection_.take_spread(completions, count, on_success, [](const ibv_wc&) {});
  return !connection_.failed();
}

void SpreadSends::report_late_paths() {
  uint64_t late = pairs_.load().take_late_paths();
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t path = pairs_[i].path;
    if ((late >> path & 1) == 0) continue;
    late &= ~(uint64_t{1} << path);
    if (!pairs_.has_other_path(path)) continue;  // it is not avoided
    const std::chrono::duration<double> lateness(pairs_.load().lateness(path));
    recovery_.on_late_chunks(i, std::chrono::duration_cast<std::chrono::milliseconds>(lateness));
  }
}

// An acknowledgement that comes after both ends have agreed on the pair's epoch is ignored: the
// chunk has arrived, by the receiver's count, or is sent again, as its request was not complete.
// The pair completes requests in order, so that a chunk's completion stands for those ahead of it
// that were not signalled.
inline bool SpreadSends::on_success(const WorkId& id, Time now) {
  const SpreadPair& pair = pairs_[id.pair];
  const bool undecided = pair.state == PairState::kUsable || pair.state == PairState::kLost;
  if (!undecided || !is_of_epoch(id, pair.epoch)) [[unlikely]]
    return true;
  if (static_cast<uint32_t>(pair.sent.acknowledged()) != id.ordinal) [[unlikely]]
    return acknowledge_up_to(id, now);
  acknowledge_oldest(id.pair, now);
  return true;
}

bool SpreadSends::acknowledge_up_to(const WorkId& id, Time now) {
  const SentChunks& sent = pairs_[id.pair].sent;
  const uint64_t number = whole_ordinal(id.ordinal, sent.acknowledged());
  if (number < sent.acknowledged() || number >= sent.posted()) [[unlikely]] {
    connection_.fail(Code::kInternal, "the HCA completed a send that is not outstanding");
    return false;
  }
  while (sent.acknowledged() <= number) acknowledge_oldest(id.pair, now);
  return true;
}

inline void SpreadSends::acknowledge_oldest(uint32_t index, Time now) {
  const SpreadPair& pair = pairs_[index];
  const SentChunk chunk = pairs_.acknowledge(index, now);
  recovery_.set_acknowledged(index, pair.sent.acknowledged());
  recovery_.counters(pair.queue_pair->rail).count(chunk.bytes);
  complete(chunk);
}

void SpreadSends::complete(const SentChunk& chunk) {
  Request& request = requests_[chunk.message];
  if (request.special != 0) [[unlikely]] {
    observed_->completed(chunk.message, pairs_[chunk.reported_on].queue_pair->number);
    if (request.pending == 1) request.special = 0;
  }
  if (--request.pending == 0) connection_.link().count_completed();
}

}  // namespace gdr::transport

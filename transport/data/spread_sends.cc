#include "transport/data/spread_sends.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gdr::transport {

SpreadSends::SpreadSends(const SpreadOwner& owner, SpreadPairs pairs)
    : SpreadPath(owner.comm->connection().rails()),
      connection_(owner.comm->connection()),
      link_(connection_.link()),
      tables_(*owner.tables),
      requests_(*owner.requests),
      recovery_(*connection_.recovery()),
      sequence_base_(owner.sequence_base),
      pairs_(std::move(pairs)),
      active_(pairs_.only_active()),
      cutter_(tables_, owner.limits, pairs_),
      whole_at_most_(cutter_.whole_at_most()),
      lost_(connection_, requests_) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i].counters = &recovery_.counters(pairs_[i].queue_pair->rail);
    pairs_[i].acknowledged = &recovery_.arrivals(i).count;
  }
  look_if_quiet(may_be_quiet());
}

bool SpreadSends::send(const Send& send, Request** request) {
  const Time at = now();
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (connection_.failed()) return false;
  if (!lost_.empty()) return true;  // what was lost goes first
  OutgoingMessage message = cutter_.cut(send);
  if (cutter_.is_too_large(message)) {
    connection_.fail(Code::kInvalidUsage,
                     too_large_text(send.bytes, cutter_.limits().max_write_bytes,
                                    cutter_.most_chunks(send.bytes)));
    return false;
  }
  post_held();  // before room is looked for, as that may lose a pair
  if (!pairs_.has_room(message.chunks.count, cutter_.work_requests(send.bytes))) return true;
  *request = message.request = requests_.take();
  if (*request == nullptr) return true;
  fill(*request, send, message.chunks.count);
  post_all(message, at);
  if (!connection_.failed()) [[likely]]
    return true;
  *request = nullptr;
  return false;
}

// No time is needed with one active path.
bool SpreadSends::hold(const Send& send, bool last, Request** request) {
  *request = nullptr;
  const uint32_t work_requests = cutter_.work_requests(send.bytes);
  if (!held_.empty() && !pairs_.has_room(pairs_[held_.pair().index], 1, work_requests)) {
    post_held();  // the message waits, or takes another pair at its next attempt
    return true;
  }
  const std::optional<uint32_t> pair = held_.empty()
                                           ? pairs_.choose(send.bytes, work_requests, Time{})
                                           : std::optional(held_.pair().index);
  if (!pair) return true;
  *request = requests_.take();
  if (*request == nullptr) return true;
  fill(*request, send, 1);
  OutgoingMessage message = cutter_.keep_whole(send);
  message.request = *request;
  void* event = message.parent != nullptr ? report(message, send.bytes, *pair) : nullptr;
  SpreadPair& carrier = pairs_[*pair];
  const QueuePair& qp = *carrier.queue_pair;
  const ChunkEnd end{message.immediate(carrier.epoch), carrier.wr_id(carrier.sent.posted())};
  pairs_.push(carrier, {*request, 0, send.bytes, work_requests, 0, event}, Time{});
  const RdmaWrite data = write_of(message, cutter_.slot(message.buffer), 0, send.bytes, qp);
  held_.add(qp, writes_of(message, data, qp, tables_, connection_.peer()), end);
  look_if_quiet(false);  // each poll counts for it
  if (last || held_.full()) post_held();
  if (!connection_.failed()) [[likely]]
    return true;
  *request = nullptr;
  return false;
}

// What the HCA refuses of a chain is lost with the pair, as is what it took and has not completed:
// all of it is recorded.
void SpreadSends::post_held() {
  if (held_.empty()) return;
  const uint32_t pair = held_.pair().index;
  const int err = held_.post();
  if (err == 0) [[likely]]
    return look_if_quiet(may_be_quiet());
  (void)on_refused(pair, err);
}

// There was room for all of it. But a pair may be lost half-way, where the HCA refuses a work
// request; chunks for which there is no room any more then wait with those of that pair.
void SpreadSends::post_all(const OutgoingMessage& message, Time now) {
  std::optional<uint32_t> lost;
  for (uint32_t i = 0; i < message.chunks.count; ++i) {
    SentChunk chunk = cutter_.chunk_at(message, message.chunks.bytes * i);
    std::optional<uint32_t> pair = pairs_.choose(chunk.bytes, chunk.work_requests, now);
    if (!pair) pair = lost;
    if (message.parent != nullptr && i < kMaxObservedChunks) [[unlikely]]
      chunk.event = report(message, chunk.bytes, *pair);
    post_chunk(message, chunk, *pair, now);
    if (pairs_[*pair].state != PairState::kUsable) lost = pair;
  }
}

// A chunk is one piece of work, even where plain writes go ahead of the write that ends it.
void* SpreadSends::report(const OutgoingMessage& message, size_t bytes, uint32_t pair) {
  const QueuePair& qp = *pairs_[pair].queue_pair;
  const ibv_wr_opcode opcode =
      message.separate_end ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  const ObservedWorkRequest work{static_cast<int>(qp.rail), message.buffer, opcode, qp.number,
                                 bytes};
  const WorkRequestObserver& observer = connection_.options().observer;
  return observer.posted(observer.context, message.parent, work);
}

// Posts a chunk on a pair, or keeps it with the others of the pair where that is lost. What is held
// has lower numbers and goes first, also where the chunk is one that was lost.
void SpreadSends::post_chunk(const OutgoingMessage& message, const SentChunk& chunk, uint32_t index,
                             Time now) {
  post_held();
  SpreadPair& pair = pairs_[index];
  const ChunkEnd end{message.immediate(pair.epoch), pair.wr_id(pair.sent.posted())};
  pairs_.push(pair, chunk, now);
  if (pair.state != PairState::kUsable) return;
  const int err = transport::post_chunk(
      message, chunk.from, chunk.bytes,
      {cutter_.slot(message.buffer), *pair.queue_pair, tables_, connection_.peer()}, end);
  if (err != 0) [[unlikely]]
    (void)on_refused(index, err);
}

// Chunks that the HCA refuses are among those that were lost with the pair.
bool SpreadSends::on_refused(uint32_t index, int err) {
  const SpreadPair& pair = pairs_[index];
  lose(index);
  look_if_quiet(false);
  (void)connection_.on_failed_post(*pair.queue_pair, pair.epoch, "a send", err);
  // A standby pair may have given its QP up (StandbyPairs::give_way), with the news still to come.
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].state == PairState::kUsable && !recovery_.has_queue_pair(i)) lose(i);
  }
  return !connection_.failed();
}

// Most completions are those of whole messages in their order, on the first active pair: one
// comparison then stands for all checks of the wr_id.
bool SpreadSends::progress() {
  ibv_wc completions[kPollBatch];
  int left = poll_quietly(link_, completions);
  if (left < 0) [[unlikely]]
    return progress_fully();
  if (left == 0) return true;
  SpreadPair& pair = pairs_.first_active();
  const ibv_wc* wc = completions;
  do {
    Request* whole = pair.sent.oldest_whole();
    if (wc->status != IBV_WC_SUCCESS || wc->wr_id != pair.next_id() || whole == nullptr)
        [[unlikely]]
      return take(wc, left);
    // Of an active pair whose load is not measured.
    pair.sent.pop_whole();
    ++pair.free;
    pair.count_acknowledged(whole->bytes[0]);
    whole->pending = 0;
    link_.count_completed();
    ++wc;
  } while (--left > 0);
  return true;
}

inline void SpreadSends::acknowledge_oldest(SpreadPair& pair, Time now) {
  const SentChunk chunk = pairs_.acknowledge(pair, now);
  pair.count_acknowledged(chunk.bytes);
  complete(chunk);
}

inline void SpreadSends::complete(const SentChunk& chunk) {
  if (chunk.event != nullptr) [[unlikely]]
    connection_.options().observer.end(chunk.event);
  if (--chunk.request->pending == 0) link_.count_completed();
}

bool SpreadSends::progress_fully() {
  if (!held_.empty() && held_.is_due()) post_held();
  poll();
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (!lost_.empty() && !connection_.failed()) [[unlikely]]
    send_again(now());
  const bool alive = !connection_.failed();
  if (!alive) held_.drop();
  look_if_quiet(alive && held_.empty() && may_be_quiet());
  return alive || end_observation();
}

bool SpreadSends::end_observation() {
  const WorkRequestObserver& observer = connection_.options().observer;
  if (observer.posted == nullptr) return false;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    SentChunks& sent = pairs_[i].sent;
    for (uint64_t n = sent.acknowledged(); n < sent.posted(); ++n) {
      observer.end(sent.take_event(n));
    }
  }
  for (const SentChunk& chunk : lost_.take_all()) observer.end(chunk.event);
  return false;
}

void SpreadSends::look_if_quiet(bool may_be) {
  const bool quiet = set_quiet(may_be);
  whole_below_ = quiet ? std::min(whole_at_most_, cutter_.limits().separate_end_above) + 1 : 0;
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
  (void)connection_.poll(on_success, [](const ibv_wc&) {});
  if (!timed) return;
  for (uint32_t path = 0; path < pairs_.load().size(); ++path) {
    if (taken[pairs_.rail_of(path)] < kPollBatch) pairs_.load().note_poll(path, at);
  }
  if (pairs_.load().has_late_paths()) [[unlikely]]
    pairs_.report_late_paths(recovery_);
}

// With one active path and nothing on those that stand by, no time is needed.
bool SpreadSends::take(const ibv_wc* completions, int count) {
  const auto on_success = [this](const WorkId& id, const ibv_wc&) {
    return this->on_success(id, Time{});
  };
  connection_.take(completions, count, on_success, [](const ibv_wc&) {});
  return !connection_.failed() || progress_fully();  // what has completed counts
}

// An acknowledgement that comes after both ends have agreed on the pair's epoch is ignored: the
// chunk has arrived, by the receiver's count, or is sent again, as its request was not complete.
// The pair completes requests in order, so that a chunk's completion stands for those ahead of it
// that were not signalled.
inline bool SpreadSends::on_success(const WorkId& id, Time now) {
  SpreadPair& pair = pairs_[id.pair];
  const bool undecided = pair.state == PairState::kUsable || pair.state == PairState::kLost;
  if (!undecided || !is_of_epoch(id, pair.epoch)) [[unlikely]]
    return true;
  if (static_cast<uint32_t>(pair.sent.acknowledged()) != id.ordinal) [[unlikely]]
    return acknowledge_up_to(id, now);
  acknowledge_oldest(pair, now);
  return true;
}

bool SpreadSends::acknowledge_up_to(const WorkId& id, Time now) {
  const SentChunks& sent = pairs_[id.pair].sent;
  const uint64_t number = whole_ordinal(id.ordinal, sent.acknowledged());
  if (number < sent.acknowledged() || number >= sent.posted()) [[unlikely]] {
    connection_.fail(Code::kInternal, "the HCA completed a send that is not outstanding");
    return false;
  }
  while (sent.acknowledged() <= number) acknowledge_oldest(pairs_[id.pair], now);
  return true;
}

void SpreadSends::take_news() {
  look_if_quiet(false);
  while (std::optional<PairNews> news = recovery_.next_news()) {
    const SpreadPair& pair = pairs_[news->pair];
    switch (news->kind) {
      case PairNews::Kind::kLost:
        if (pair.state == PairState::kUsable) lose(news->pair);
        break;
      case PairNews::Kind::kAgreed:
        agree(*news);
        break;
      case PairNews::Kind::kReturned:
        pairs_.restart(news->pair, news->epoch);
        break;
    }
  }
}

// What is held for the pair is recorded as posted: it has not arrived, and goes over another one.
void SpreadSends::lose(uint32_t index) {
  pairs_.lose(index);
  if (!held_.empty() && held_.pair().index == index) held_.drop();
}

// Chunks below `arrived` are complete. The others wait for a pair; this one may be the first that
// is usable again.
void SpreadSends::agree(const PairNews& news) {
  SpreadPair& pair = pairs_[news.pair];
  if (pair.state == PairState::kUsable) lose(news.pair);
  if (!lost_.check_arrived(pair.sent, news.arrived)) return;
  while (pair.sent.acknowledged() < news.arrived) complete(pair.sent.pop());
  pair.state = PairState::kDown;
  lost_.take_over(pair, pairs_.load().size());
}

void SpreadSends::send_again(Time now) {
  lost_.send_again([&](const SentChunk& chunk) {
    const OutgoingMessage message = cutter_.message_of(*chunk.request);
    const std::optional<uint32_t> to = pairs_.choose(chunk.bytes, chunk.work_requests, now);
    const uint64_t sequence = sequence_base_ + message.buffer;
    if (!to || !lost_.still_fits(cutter_.slot(message.buffer), sequence, chunk)) return false;
    post_chunk(message, chunk, *to, now);
    return true;
  });
}

}  // namespace gdr::transport

#include "transport/data/spread_sends.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "transport/recovery/recovery_text.h"

namespace gdr::transport {
namespace {

// Why a message is refused that takes more writes than `most`.
std::string too_large_text(size_t bytes, size_t max_write_bytes, size_t most) {
  return "a send of " + std::to_string(bytes) + " bytes takes too many writes of " +
         std::to_string(max_write_bytes) + " bytes, the port's largest message; the limit is " +
         std::to_string(most) + " writes. Fix: set NCCL_BUFFSIZE lower, or use another HCA";
}

// Whether the slot is still that of the message, and large enough. The receiver keeps a late write
// of an older announcement from replacing it (SpreadReceives); a peer that does not would have
// the data written into another buffer.
bool still_fits(const SentChunk& chunk, const wire::ClearToSend& slot, uint64_t sequence) {
  return load_hca_written(slot.sequence) == sequence && chunk.from + chunk.bytes <= slot.bytes;
}

FailedWork count_failure(SentChunk* chunk, RailLoad::Time now) {
  std::chrono::steady_clock::rep& since = chunk->request->failing_since;
  if (chunk->failures == 0) since = now.time_since_epoch().count();
  return {.failures = ++chunk->failures,
          .failing_for = now.time_since_epoch() - RailLoad::Time::duration(since)};
}

}  // namespace

SpreadSends::SpreadSends(Connection& connection, RailTables& tables, SendRequests& requests,
                         const MessageCutter& cutter)
    : SpreadPath(connection.rails()),
      connection_(connection),
      link_(connection.link()),
      tables_(tables),
      requests_(requests),
      recovery_(*connection.recovery()),
      pairs_(connection.rails(), recovery_),
      active_(pairs_.only_active()),
      cutter_(cutter) {
  cutter_.paths = pairs_.active_paths();
  cutter_.pairs = pairs_.active_pairs();
  cutter_.queue_depth = pairs_.queue_depth();
  look_if_quiet(may_be_quiet());
}

// A pair may be lost half-way, where the HCA refuses a work request; chunks for which there is no
// room any more then wait with those of that pair.
bool SpreadSends::send(const Send& send, bool held, bool last, Request** request) {
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (connection_.failed()) return false;
  if (!waiting_.empty()) return true;  // what was lost goes first
  const Chunking chunks = cutter_.cut(send.bytes);
  if (chunks.bytes > cutter_.max_write_bytes) {
    connection_.fail(Code::kInvalidUsage, too_large_text(send.bytes, cutter_.max_write_bytes,
                                                         cutter_.most_chunks(send.bytes)));
    return false;
  }
  if (!held) post_held();  // before room is looked for, as that may lose a pair
  const uint32_t each = cutter_.work_requests(send.bytes);
  SpreadPair* const chained = chain_.empty() ? nullptr : &pairs_[chain_.pair().index];
  if (chained != nullptr ? !pairs_.has_room(*chained, each)
                         : !pairs_.has_room(chunks.count, each)) {
    post_held();  // the message waits, or takes another pair at its next attempt
    return true;
  }
  Request* const taken = requests_.take();
  if (taken == nullptr) return true;
  fill(taken, send, chunks.count);
  // The second chunk may need it where the first one loses its pair.
  const Time at = chunks.count > 1 || pairs_.choice_needs_time() ? now() : Time{};
  SpreadPair* lost = nullptr;
  for (uint32_t i = 0; i < chunks.count; ++i) {
    const size_t from = chunks.bytes * i;
    SentChunk chunk{taken, from, std::min(send.bytes - from, chunks.bytes), each, 0, nullptr};
    SpreadPair* pair = chained != nullptr ? chained : pairs_.choose(chunk.bytes, each, at);
    if (pair == nullptr) pair = lost;
    if (send.parent != nullptr && i < kMaxObservedChunks) report(send, *pair->queue_pair, &chunk);
    add(chunk, chunks.count, *pair, at);
    if (!held || last || chain_.full()) post_chain();
    if (pair->state != PairState::kUsable) lost = pair;
  }
  if (held) look_if_quiet(chain_.empty() && may_be_quiet());  // each poll counts for a chain
  if (connection_.failed()) [[unlikely]]
    return false;
  *request = taken;
  return true;
}

// A chunk is one piece of work, even where its end is a write of its own.
void SpreadSends::report(const Send& send, const QueuePair& qp, SentChunk* chunk) const {
  const ibv_wr_opcode opcode =
      chunk->work_requests > 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  const ObservedWorkRequest work{static_cast<int>(qp.rail), send.buffer, opcode, qp.number,
                                 chunk->bytes};
  const WorkRequestObserver& observer = connection_.options().observer;
  chunk->event = observer.posted(observer.context, send.parent, work);
}

// Adds a chunk of a message of `count` chunks to those of a pair, and its writes to the chain
// unless the pair is lost.
//
// Where the fabric routes adaptively, the packets of a plain write can take several paths, as the
// HCA may place them in any order. A write with immediate does not profit: it consumes a receive
// and completes at the receiver, in order. So the data goes first as a plain write, and its end
// follows on the same QP as a write with immediate. RC executes requests in order, so that the
// receiver sees the end only after all of the data (NCCL's net_ib, p2p.cc, splits a message the
// same way above NCCL_IB_AR_THRESHOLD). The completion has no byte count of the data: the immediate
// states the message's size, and the end has no bytes. Where it cannot, the end is a write of the
// size, 8 bytes, to the slot's entry of the receiver's size table.
void SpreadSends::add(const SentChunk& chunk, uint32_t count, SpreadPair& pair, Time now) {
  const uint64_t id = pair.wr_id(pair.sent.posted());
  pairs_.push(pair, chunk, now);
  if (pair.state != PairState::kUsable) return;
  const Request& request = *chunk.request;
  const QueuePair& qp = *pair.queue_pair;
  const RdmaWrite data = write_of(request, chunk.from, chunk.bytes, slot(request), qp);
  wire::Immediate immediate{wire::slot_of(request.first), count,
                            wire::stamp_of(request.first, pair.epoch), false};
  if (chunk.work_requests == 1) {
    chain_.add(qp, data, nullptr, wire::encode(immediate), id);
    return;
  }
  RdmaWrite end = data;  // the keys and the address are not used, but valid
  end.bytes = 0;
  const std::optional<uint32_t> code =
      count == 1 ? wire::size_code(chunk.bytes, slot(request).bytes) : std::nullopt;
  if (code) {
    immediate.size_is_coded = true;
    immediate.size_code = *code;
  } else {
    uint64_t* size = &tables_->sizes[immediate.slot];
    *size = request.bytes[0];
    end = tables_.copy_to_peer(size, 1, connection_.peer(), qp);
    immediate.size_in_table = true;
  }
  chain_.add(qp, data, &end, wire::encode(immediate), id);
}

// What the HCA refuses of a chain is lost with the pair, as is what it took and has not completed:
// all of it is recorded.
void SpreadSends::post_chain() {
  if (chain_.empty()) return;
  const uint32_t pair = chain_.pair().index;
  const int err = chain_.post();
  if (err != 0) [[unlikely]]
    (void)on_refused(pair, err);
}

// What is held for a group has lower numbers than what follows, and goes first.
void SpreadSends::post_held() {
  if (chain_.empty()) return;
  post_chain();
  look_if_quiet(may_be_quiet());
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

inline void SpreadSends::complete(const SentChunk& chunk) {
  if (chunk.event != nullptr) [[unlikely]]
    connection_.options().observer.end(chunk.event);
  if (--chunk.request->pending == 0) link_.count_completed();
}

bool SpreadSends::progress_fully() {
  if (!chain_.empty() && chain_.is_due()) post_held();
  poll();
  if (recovery_.has_news()) [[unlikely]]
    take_news();
  if (!waiting_.empty() && !connection_.failed()) [[unlikely]]
    send_again(now());
  const bool alive = !connection_.failed();
  if (!alive) chain_.drop();
  look_if_quiet(alive && chain_.empty() && may_be_quiet());
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
  for (SentChunk& chunk : waiting_) observer.end(std::exchange(chunk.event, nullptr));
  return false;
}

void SpreadSends::look_if_quiet(bool may_be) {
  const bool quiet = set_quiet(may_be);
  whole_below_ = quiet ? std::min(cutter_.whole_at_most(), cutter_.separate_end_above) + 1 : 0;
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
  (void)connection_.poll(on_success);
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
  connection_.take(completions, count, on_success);
  return !connection_.failed() || progress_fully();  // what has completed counts
}

// An acknowledgement that comes after both ends have agreed on the pair's epoch is ignored: the
// chunk has arrived, by the receiver's count, or is sent again, as its request was not complete.
// The pair completes requests in order, so that a chunk's completion stands for those ahead of it
// that were not signalled.
bool SpreadSends::on_success(const WorkId& id, Time now) {
  SpreadPair& pair = pairs_[id.pair];
  const bool undecided = pair.state == PairState::kUsable || pair.state == PairState::kLost;
  if (!undecided || !is_of_epoch(id, pair.epoch)) [[unlikely]]
    return true;
  const uint64_t number = whole_ordinal(id.ordinal, pair.sent.acknowledged());
  if (number < pair.sent.acknowledged() || number >= pair.sent.posted()) [[unlikely]] {
    connection_.fail(Code::kInternal, "the HCA completed a send that is not outstanding");
    return false;
  }
  while (pair.sent.acknowledged() <= number) {
    const SentChunk chunk = pairs_.acknowledge(pair, now);
    pair.count_acknowledged(chunk.bytes);
    complete(chunk);
  }
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
  if (!chain_.empty() && chain_.pair().index == index) chain_.drop();
}

// Chunks below `arrived` are complete. The others wait for a pair; this one may be the first that
// is usable again. The pair was lost with the first of them, unless something else has failed.
void SpreadSends::agree(const PairNews& news) {
  SpreadPair& pair = pairs_[news.pair];
  SentChunks& sent = pair.sent;
  if (pair.state == PairState::kUsable) lose(news.pair);
  const Status plausible = check_arrived({sent.acknowledged(), sent.posted()}, news.arrived);
  if (!plausible) return connection_.fail(plausible.error().code, plausible.error().text);
  while (sent.acknowledged() < news.arrived) complete(sent.pop());
  pair.state = PairState::kDown;
  FailedWork failed;
  for (bool is_first = true; !sent.empty(); is_first = false) {
    SentChunk chunk = sent.pop();
    if (is_first) failed = count_failure(&chunk, now());
    waiting_.push_back(chunk);
  }
  if (fails_over_every_path(failed, pairs_.load().size(), connection_.options())) {
    return connection_.fail(Code::kRemote,
                            work_fails_text("a chunk", failed, recovery_.lost_pair(news.pair)));
  }
  recovery_.finish(news.pair);
}

void SpreadSends::send_again(Time now) {
  std::erase_if(waiting_, [&](const SentChunk& chunk) {
    if (connection_.failed()) return false;
    SpreadPair* const to = pairs_.choose(chunk.bytes, chunk.work_requests, now);
    if (to == nullptr) return false;
    const uint64_t sequence = connection_.end().sequence_base + chunk.request->first;
    if (!still_fits(chunk, slot(*chunk.request), sequence)) {
      connection_.fail(Code::kInternal,
                       "the peer's clear-to-send was replaced or made smaller before all of its "
                       "message was sent");
      return false;
    }
    post_held();
    add(chunk, cutter_.cut(chunk.request->bytes[0]).count, *to, now);
    post_chain();
    return true;
  });
}

}  // namespace gdr::transport

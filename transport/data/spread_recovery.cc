// What SpreadSends does when a pair is lost, and until it returns.
#include <algorithm>
#include <utility>

#include "transport/data/spread_sends.h"
#include "transport/recovery/recovery_rules.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

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
// is usable again. The pair was lost with the first of them, unless something else has failed.
void SpreadSends::agree(const PairNews& news) {
  SpreadPair& pair = pairs_[news.pair];
  if (pair.state == PairState::kUsable) lose(news.pair);
  if (!check_arrived(news)) return;
  while (pair.sent.acknowledged() < news.arrived) complete(pair.sent.pop());
  pair.state = PairState::kDown;
  MovedWork moved;
  FailedWork failed;
  while (!pair.sent.empty()) {
    SentChunk chunk = pair.sent.pop();
    if (moved.chunks == 0) failed = count_failure(chunk);
    ++moved.chunks;
    moved.bytes += chunk.bytes;
    waiting_.push_back(chunk);
  }
  if (fails_over_every_path(failed, pairs_.load().size(), connection_.options())) {
    return connection_.fail(Code::kRemote,
                            work_fails_text("a chunk", failed, recovery_.lost_pair(news.pair)));
  }
  recovery_.finish(news.pair, moved);
}

FailedWork SpreadSends::count_failure(SentChunk& chunk) {
  Time& since = failing_since_[requests_.index_of(*chunk.request)];
  if (chunk.failures == 0) since = now();
  chunk.failures = static_cast<uint16_t>(std::min(chunk.failures + 1, 0xffff));
  return {.failures = chunk.failures, .failing_for = now() - since};
}

bool SpreadSends::check_arrived(const PairNews& news) {
  const SentChunks& sent = pairs_[news.pair].sent;
  const ChunkCounts counts{.acknowledged = sent.acknowledged(), .posted = sent.posted()};
  const Status plausible = transport::check_arrived(counts, news.arrived);
  if (!plausible) connection_.fail(plausible.error().code, plausible.error().text);
  return plausible.has_value();
}

void SpreadSends::move_chunks(Time now) {
  std::erase_if(waiting_, [&](const SentChunk& chunk) { return move_chunk(chunk, now); });
}

// Returns false where the chunk has to wait.
bool SpreadSends::move_chunk(const SentChunk& chunk, Time now) {
  if (connection_.failed()) return true;
  const OutgoingMessage message = message_of(*chunk.request);
  const std::optional<uint32_t> to = pairs_.choose(chunk.bytes, chunk.work_requests, now);
  if (to && still_fits(message, chunk)) post_chunk(message, chunk, *to, now);
  return to.has_value();
}

// Whether the slot is still that of the message, and large enough. The receiver keeps a late write
// of an older announcement from replacing it (AnnouncementRules); a peer that does not would have
// the data written into another buffer.
bool SpreadSends::still_fits(const OutgoingMessage& message, const SentChunk& chunk) {
  const wire::ClearToSend& to = slot(message.buffer);
  if (load_hca_written(to.sequence) == sequence_base_ + message.buffer &&
      chunk.from + chunk.bytes <= to.bytes) {
    return true;
  }
  connection_.fail(Code::kInternal,
                   "the peer's clear-to-send was replaced or made smaller before all of its "
                   "message was sent");
  return false;
}

}  // namespace gdr::transport

#include "transport/data/lost_chunks.h"

#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

bool LostChunks::check_arrived(const SentChunks& sent, uint64_t arrived) {
  const ChunkCounts counts{.acknowledged = sent.acknowledged(), .posted = sent.posted()};
  const Status plausible = transport::check_arrived(counts, arrived);
  if (!plausible) connection_.fail(plausible.error().code, plausible.error().text);
  return plausible.has_value();
}

void LostChunks::take_over(SpreadPair& pair, size_t paths) {
  const uint32_t index = pair.queue_pair->index;
  const bool has_lost = !pair.sent.empty();
  FailedWork failed;
  for (bool is_first = true; !pair.sent.empty(); is_first = false) {
    SentChunk chunk = pair.sent.pop();
    if (is_first) failed = count_failure(chunk);
    waiting_.push_back(chunk);
  }
  Recovery& recovery = *connection_.recovery();
  if (fails_over_every_path(failed, paths, connection_.options())) {
    return connection_.fail(Code::kRemote,
                            work_fails_text("a chunk", failed, recovery.lost_pair(index)));
  }
  recovery.finish(index, has_lost);
}

FailedWork LostChunks::count_failure(SentChunk& chunk) {
  const RailLoad::Time now = connection_.options().now();
  RailLoad::Time& since = failing_since_[requests_.index_of(*chunk.request)];
  if (chunk.failures == 0) since = now;
  return {.failures = ++chunk.failures, .failing_for = now - since};
}

bool LostChunks::still_fits(const wire::ClearToSend& slot, uint64_t sequence,
                            const SentChunk& chunk) {
  const bool fits =
      load_hca_written(slot.sequence) == sequence && chunk.from + chunk.bytes <= slot.bytes;
  if (fits) return true;
  connection_.fail(Code::kInternal,
                   "the peer's clear-to-send was replaced or made smaller before all of its "
                   "message was sent");
  return false;
}

}  // namespace gdr::transport

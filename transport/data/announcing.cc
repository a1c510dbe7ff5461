// Which pair of a receiver carries clear-to-send, and what of it is announced again after a loss.
#include <utility>

#include "transport/data/spread_receives.h"

namespace gdr::transport {
namespace {

// A pair over which more than so many times as much arrives as over that of clear-to-send is the
// better one. Much less would make clear-to-send move between rails that are about equal.
constexpr uint32_t kFollowAt = 8;

uint64_t announcement_id(uint32_t pair, uint32_t epoch) {
  return encode(WorkId{WorkKind::kClearToSend, pair, epoch, 0});
}

}  // namespace

void SpreadReceives::on_announced(const WorkId& id) {
  ReceivePair& pair = pairs_[id.pair];
  if (id.epoch != pair.epoch) return;
  if (id.ordinal == ClearToSendWriter::kAgain) {
    rules_.on_written(id.pair);
    if (repeats_ && announcer_) return announce_again();
    limit_announcements();
  } else if (id.pair == announcer_) {
    announcements().on_written();
  } else {
    pair.unconfirmed -= ClearToSendWriter::kSignalEvery;
  }
}

// No slot is filled for another buffer while an older announcement of it may be under way. That is
// so for a moment after a recovery only, so that there is no need to go by the slot.
void SpreadReceives::limit_announcements() {
  announcements().block(rules_.end() != AnnouncementRules<>::kNone);
}

void SpreadReceives::record_announced() {
  if (announcer_) rules_.record(*announcer_, announcements().announced());
}

void SpreadReceives::announce_after_news() {
  announce_over(best_announcer());
  limit_announcements();
  if (!repeats_) return;
  if (announcer_) {
    announce_again();
  } else {
    finish_agreed();  // one of them has to return for that
  }
}

// The present one where that is as good as any: the first usable pair that does not stand by, else
// the first usable one. follow_data() may then take another that is as good.
std::optional<uint32_t> SpreadReceives::best_announcer() const {
  const auto rank = [this](uint32_t i) {
    return pairs_[i].usable ? (pairs_[i].standby ? 1 : 2) : 0;
  };
  std::optional<uint32_t> best = announcer_;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (!best || rank(i) > rank(*best)) best = i;
  }
  return rank(*best) > 0 ? best : std::nullopt;
}

// How much has arrived over the announcer meanwhile shows whether the sender avoids its rail. The
// slots on their way over the present pair arrive as they are: the sender reads each slot by
// itself, and none is filled again before its data is here, nor announced again over another pair
// while this one may still deliver it.
void SpreadReceives::follow_data(uint32_t index) {
  ReceivePair& pair = pairs_[index];
  if (!announcer_ || *announcer_ == index) return;
  const ReceivePair& announcer = pairs_[*announcer_];
  const uint32_t before = std::exchange(pair.arrived_at_announcer, announcer.arrived);
  if (before == ReceivePair::kNone || !pair.usable || pair.standby != announcer.standby) return;
  if (announcer.arrived - before >= RailSet::kReceiveBatch / kFollowAt) return;
  announce_over(index);
  if (repeats_) announce_again();
}

void SpreadReceives::announce_over(std::optional<uint32_t> best) {
  if (best == announcer_) return;
  record_announced();
  for (ReceivePair& pair : pairs_) pair.arrived_at_announcer = ReceivePair::kNone;
  if (!best) {
    announcements().pause();
  } else {
    const ReceivePair& pair = pairs_[*best];
    connection_.rails().set_clear_to_send_pair(*best);
    const int unconfirmed =
        announcements().continue_with(announcement_id(*best, pair.epoch), pair.unconfirmed);
    if (announcer_) pairs_[*announcer_].unconfirmed = unconfirmed;
    announcements().announce_waiting();
  }
  announcer_ = best;
}

// Announces again what may be lost with a pair. The sender ignores the slots that it knows.
void SpreadReceives::announce_again() {
  announcements().announce_all();  // so that the limit concerns only what is posted later
  record_announced();
  const uint64_t end = announcements().announced();
  const BufferRange incomplete{slots_.oldest_incomplete(end), end};
  announce_first_lost(incomplete);
  finish_agreed();
  limit_announcements();
}

// One run of slots at a time, the next one once that is confirmed, since the send queue has room
// for no more (ClearToSendWriter::has_room).
void SpreadReceives::announce_first_lost(const BufferRange& among) {
  BufferRange lost = rules_.first_lost(among);
  if (!lost.empty() && !rules_.awaits_confirmation(*announcer_)) {
    rules_.on_announced_again(*announcer_, lost);
    (void)announcements().write_again(lost.first, lost.end);  // a failure loses the pair in turn
    lost = rules_.first_lost({lost.end, among.end});
  }
  repeats_ = !lost.empty();
}

void SpreadReceives::finish_agreed() {
  for (uint32_t pair : agreed_) recovery_.finish(pair);
  agreed_.clear();
}

}  // namespace gdr::transport

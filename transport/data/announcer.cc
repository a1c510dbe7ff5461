#include "transport/data/announcer.h"

#include <utility>

namespace gdr::transport {
namespace {

// A pair over which more than so many times as much arrives as over that of clear-to-send is the
// better one. Much less would make clear-to-send move between rails that are about equal.
constexpr uint32_t kFollowAt = 8;

uint64_t announcement_id(uint32_t pair, uint32_t epoch) {
  return encode(WorkId{WorkKind::kClearToSend, pair, epoch, 0});
}

}  // namespace

Announcer::Announcer(Connection& connection, ReceiveSlots& slots, std::vector<ReceivePair>& pairs)
    : connection_(connection), announcements_(slots.announcements()), slots_(slots), pairs_(pairs) {
  announcements_.continue_with(announcement_id(0, 0), 0);
}

void Announcer::on_written(const WorkId& id) {
  ReceivePair& pair = pairs_[id.pair];
  if (id.epoch != pair.epoch) return;
  if (id.ordinal == ClearToSendWriter::kAgain) {
    rules_.on_written(id.pair);
    if (repeats_ && current_) return repeat();
    apply_limit();
  } else if (id.pair == current_) {
    announcements_.on_written();
  } else {
    pair.unconfirmed -= ClearToSendWriter::kSignalEvery;
  }
}

// No slot is filled for another buffer while an older announcement of it may be under way. That is
// so for a moment after a recovery only, so that there is no need to go by the slot.
void Announcer::apply_limit() { announcements_.block(rules_.end() != AnnouncementRules<>::kNone); }

void Announcer::record() {
  if (current_) rules_.record(*current_, announcements_.announced());
}

void Announcer::on_agreed(uint32_t index) {
  rules_.on_recovered(index);
  repeats_ = true;
  agreed_.push_back(index);
}

void Announcer::on_news_taken() {
  move_to(best());
  apply_limit();
  if (!repeats_) return;
  if (current_) {
    repeat();
  } else {
    finish_agreed();  // one of them has to return for that
  }
}

// The present one where that is as good as any: the first usable pair that does not stand by, else
// the first usable one. follow_data() may then take another that is as good.
std::optional<uint32_t> Announcer::best() const {
  const auto rank = [this](uint32_t i) {
    return pairs_[i].usable ? (pairs_[i].standby ? 1 : 2) : 0;
  };
  std::optional<uint32_t> best = current_;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (!best || rank(i) > rank(*best)) best = i;
  }
  return rank(*best) > 0 ? best : std::nullopt;
}

// How much has arrived over the announcer meanwhile shows whether the sender avoids its rail. The
// slots on their way over the present pair arrive as they are: the sender reads each slot by
// itself, and none is filled again before its data is here, nor announced again over another pair
// while this one may still deliver it.
void Announcer::follow_data(uint32_t index) {
  ReceivePair& pair = pairs_[index];
  if (!current_ || *current_ == index) return;
  const ReceivePair& announcer = pairs_[*current_];
  const uint32_t before = std::exchange(pair.arrived_at_announcer, announcer.arrived);
  if (before == ReceivePair::kNone || !pair.usable || pair.standby != announcer.standby) return;
  if (announcer.arrived - before >= RailSet::kReceiveBatch / kFollowAt) return;
  move_to(index);
  if (repeats_) repeat();
}

void Announcer::move_to(std::optional<uint32_t> best) {
  if (best == current_) return;
  record();
  for (ReceivePair& pair : pairs_) pair.arrived_at_announcer = ReceivePair::kNone;
  if (!best) {
    announcements_.pause();
  } else {
    const ReceivePair& pair = pairs_[*best];
    connection_.rails().set_clear_to_send_pair(*best);
    const int unconfirmed =
        announcements_.continue_with(announcement_id(*best, pair.epoch), pair.unconfirmed);
    if (current_) pairs_[*current_].unconfirmed = unconfirmed;
    (void)announcements_.announce_waiting();
  }
  current_ = best;
}

// Announces again what may be lost with a pair. The sender ignores the slots that it knows.
void Announcer::repeat() {
  (void)announcements_.announce_all();  // so that the limit concerns only what is posted later
  record();
  const uint64_t end = announcements_.announced();
  const BufferRange incomplete{slots_.oldest_incomplete(end), end};
  write_first_lost(incomplete);
  finish_agreed();
  apply_limit();
}

// One run of slots at a time, the next one once that is confirmed, since the send queue has room
// for no more (ClearToSendWriter::has_room).
void Announcer::write_first_lost(const BufferRange& among) {
  BufferRange lost = rules_.first_lost(among);
  if (!lost.empty() && !rules_.awaits_confirmation(*current_)) {
    rules_.on_announced_again(*current_, lost);
    (void)announcements_.write_again(lost.first, lost.end);  // a failure loses the pair in turn
    lost = rules_.first_lost({lost.end, among.end});
  }
  repeats_ = !lost.empty();
}

void Announcer::finish_agreed() {
  for (uint32_t pair : agreed_) connection_.recovery()->finish(pair, /*has_lost=*/false);
  agreed_.clear();
}

}  // namespace gdr::transport

// Which pair of a receiver carries clear-to-send, and what is announced again after a loss.
//
// No late write may replace a newer slot of the ring. So all announcements that may be under way go
// over one pair, the announcer, as writes of one pair arrive in order:
//
// - A lost announcer is replaced once it is down at both ends, since nothing of it arrives then.
// - A living one is replaced once its last write is confirmed, since all before it have arrived.
//
// A buffer that is announced again may be complete before that write is read from the ring here. So
// no slot is filled again until it is confirmed.
#include <utility>

#include "transport/data/spread_receives.h"

namespace gdr::transport {
namespace {

// A pair over which more than so many times as much arrives as over that of clear-to-send is the
// better one. Much less would make clear-to-send move between rails that are about equal.
constexpr uint32_t kFollowAt = 8;

}  // namespace

void SpreadReceives::on_announced(uint64_t wr_id) {
  if (wr_id == announcements().wr_id()) return announcements().on_written();
  const bool is_last = wr_id == (announcements().wr_id() | ClearToSendWriter::kConfirms);
  if (!is_last || announcing_ != Announcing::kConfirms) return;
  announcing_ = Announcing::kFreely;
  announce_over(*best_announcer());
  announcements().resume();
}

// The first usable pair that does not stand by, else the first usable one; wanted_ where that is as
// good.
std::optional<uint32_t> SpreadReceives::best_announcer() const {
  const auto rank = [this](uint32_t i) {
    return pairs_[i].usable ? (pairs_[i].standby ? 1 : 2) : 0;
  };
  uint32_t best = wanted_;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (rank(i) > rank(best)) best = i;
  }
  return rank(best) > 0 ? std::optional(best) : std::nullopt;
}

// How much has arrived over the announcer meanwhile shows whether the sender avoids its rail.
void SpreadReceives::follow_data(uint32_t index) {
  ReceivePair& pair = pairs_[index];
  if (announcer_ == index) return;
  const ReceivePair& announcer = pairs_[announcer_];
  const uint32_t before = std::exchange(pair.arrived_at_announcer, announcer.arrived);
  if (before == ReceivePair::kNone || !pair.usable || pair.standby != announcer.standby) return;
  if (announcer.arrived - before >= RailSet::kReceiveBatch / kFollowAt) return;
  wanted_ = index;
  choose_announcer();
}

void SpreadReceives::choose_announcer() {
  const std::optional<uint32_t> best = best_announcer();
  if (announcing_ == Announcing::kDown && best) {
    announce_over(*best);
    confirm_announcements(slots_.oldest_incomplete());
  } else if (announcing_ == Announcing::kFreely && best != announcer_) {
    confirm_announcements(slots_.head());
  }
}

void SpreadReceives::announce_over(uint32_t index) {
  announcer_ = wanted_ = index;
  for (ReceivePair& pair : pairs_) pair.arrived_at_announcer = ReceivePair::kNone;
  connection_.rails().set_clear_to_send_pair(index);
  announcements().use(encode(WorkId{WorkKind::kClearToSend, index, pairs_[index].epoch, 0}));
}

// The sender ignores the slots that it knows.
void SpreadReceives::confirm_announcements(uint64_t first) {
  announcing_ = Announcing::kConfirms;
  announcements().confirm(first);
}

}  // namespace gdr::transport

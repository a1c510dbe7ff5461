#include "transport/data/spread_receives.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gdr::transport {
namespace {

constexpr uint32_t kEpochMask = 0xffff;  // of a WorkId
uint64_t receive_id(uint32_t pair, uint32_t epoch) {
  return encode(WorkId{WorkKind::kReceive, pair, epoch, 0});
}
// A pair over which more than so many times as much arrives as over that of clear-to-send is the
// better one. Much less would make clear-to-send move between rails that are about equal.
constexpr uint32_t kFollowAt = 8;

uint64_t announcement_id(uint32_t pair, uint32_t epoch) {
  return encode(WorkId{WorkKind::kClearToSend, pair, epoch, 0});
}

}  // namespace

SpreadReceives::SpreadReceives(Connection& connection, ClearToSendWriter& announcements,
                               std::vector<Flush> flushes, ServiceClass of_flushes)
    : SpreadPath(connection.rails()),
      connection_(connection),
      recovery_(*connection.recovery()),
      announcements_(announcements),
      flushes_(connection, std::move(flushes), of_flushes) {
  const RailSet& rails = connection_.rails();
  for (uint32_t i = 0; i < rails.pair_count(); ++i) {
    const QueuePair& pair = rails.pair(i);
    pairs_.push_back({.index = i,
                      .counters = &recovery_.counters(pair.rail),
                      .arrivals = &recovery_.arrivals(i),
                      .rail = pair.rail,
                      .standby = pair.standby,
                      .receive_id = receive_id(i, 0)});
  }
  announcer_ = 0;
  announcements_.continue_with(announcement_id(0, 0), 0);
}

bool SpreadReceives::on_other(const WorkId& id) {
  switch (id.kind) {
    case WorkKind::kClearToSend:
      on_announced(id);
      return true;
    case WorkKind::kFlush:
      flushes_.on_read(id);
      return true;
    default:
      connection_.fail(Code::kInternal, "a completion of an unexpected kind");
      return false;
  }
}

bool SpreadReceives::refuse_arrival() {
  connection_.fail(Code::kInternal, "data arrived over a queue pair that both ends had given up");
  return false;
}

// Replaces a batch of receives; not on a pair that is lost, where what is polled has arrived
// before. rxe does not flush what is posted on a QP in ERROR, and the pair returns once all
// receives have completed. So a pair over rxe stays away if its QP goes to ERROR between the look
// and the post.
bool SpreadReceives::refill(uint32_t index) {
  Pair& pair = pairs_[index];
  follow_data(index);
  RailSet& rails = connection_.rails();
  if (rails.pair(index).qp == nullptr) return true;
  if (recovery_.arrivals(index).is_stopped()) {
    recovery_.on_consumed(index);
    return true;
  }
  const int posted = rails.post_receives(index, RailSet::kReceiveBatch, pair.receive_id);
  recovery_.arrivals(index).count_receives(posted);
  return posted == RailSet::kReceiveBatch ||
         connection_.on_failed_post(rails.pair(index), pair.epoch, "receives", EIO);
}

void SpreadReceives::on_announced(const WorkId& id) {
  Pair& pair = pairs_[id.pair];
  if (id.epoch != pair.epoch) return;
  if (id.ordinal == ClearToSendWriter::kAgain) {
    announcement_rules_.on_written(id.pair);
    if (repeats_announcements_ && announcer_) return repeat_announcements();
    apply_limit();
  } else if (id.pair == announcer_) {
    announcements_.on_written();
  } else {
    pair.unconfirmed -= ClearToSendWriter::kSignalEvery;
  }
}

// No slot is filled for another buffer while an older announcement of it may be under way. That is
// so for a moment after a recovery only, so that there is no need to go by the slot.
void SpreadReceives::apply_limit() {
  announcements_.block(announcement_rules_.end() != AnnouncementRules<>::kNone);
}

// All news first, so that what was lost with several pairs is announced again only once.
void SpreadReceives::take_news() {
  record_announced();
  while (const std::optional<PairNews> news = recovery_.next_news()) {
    switch (news->kind) {
      case PairNews::Kind::kLost:
        pairs_[news->pair].usable = pairs_[news->pair].arrives = false;
        break;
      case PairNews::Kind::kAgreed:
        on_agreed(news->pair);
        break;
      case PairNews::Kind::kReturned:
        on_returned(*news);
        break;
    }
  }
  move_announcements(best_announcer());
  apply_limit();
  if (!repeats_announcements_) return;
  if (announcer_) {
    repeat_announcements();
  } else {
    finish_agreed({});  // one of them has to return for that
  }
}

// Called before the announcer changes or is down at both ends, so that an ordinary announcement
// records nothing.
void SpreadReceives::record_announced() {
  if (announcer_) announcement_rules_.record(*announcer_, announcements_.announced());
}

void SpreadReceives::on_agreed(uint32_t index) {
  if (!is_rail_left(pairs_[index].rail)) flushes_.stop_rail(pairs_[index].rail);
  announcement_rules_.on_recovered(index);
  repeats_announcements_ = true;
  agreed_.push_back(index);
}

void SpreadReceives::on_returned(const PairNews& news) {
  Pair& pair = pairs_[news.pair];
  pair.usable = true;
  pair.unconfirmed = 0;
  const uint32_t epoch = news.epoch & kEpochMask;
  if (pair.epoch != epoch) begin_epoch(pair, epoch);
}

// The sender writes over a pair once its own probe has completed, perhaps before this end has seen
// the completion of the other one, so that the news of the return are still to come. A flush of
// what arrives then has to read over that rail, too, and must not wait for it if the rail is lost
// before those news.
void SpreadReceives::receive_early(const WorkId& id) {
  begin_epoch(pairs_[id.pair], id.epoch);
  recovery_.on_early_data(id.pair);
}

void SpreadReceives::begin_epoch(Pair& pair, uint32_t epoch) {
  pair.epoch = epoch;
  pair.stamp = wire::encode({0, 1, wire::stamp_of(0, epoch), /*size_in_table=*/false});
  pair.receive_id = receive_id(pair.index, epoch);
  pair.arrived = 0;
  pair.arrives = true;
  flushes_.start_rail(pair.rail);
}

// Whether data and the completions of what this end writes come over active pairs alone. A sender
// that has lost one before this end knows of it writes over another rail meanwhile, which one poll
// in kPollsPerLookAtAll sees.
bool SpreadReceives::uses_only_active() const {
  return std::ranges::all_of(pairs_, [](const Pair& pair) { return pair.usable || pair.standby; });
}

bool SpreadReceives::is_rail_left(uint32_t rail) const {
  return std::ranges::any_of(
      pairs_, [rail](const Pair& pair) { return pair.rail == rail && pair.arrives; });
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

// A batch of chunks has arrived over the pair since it came here last, by which the pairs of a rail
// that the sender avoids are recognised. The slots on their way over the present pair arrive as
// they are: the sender reads each slot by itself, and none is filled again before its data is here,
// nor announced again over another pair while this one may still deliver it.
void SpreadReceives::follow_data(uint32_t index) {
  Pair& pair = pairs_[index];
  if (!announcer_ || *announcer_ == index) return;
  const Pair& announcer = pairs_[*announcer_];
  const uint32_t before = std::exchange(pair.arrived_at_announcer, announcer.arrived);
  if (before == kNone || !pair.usable || pair.standby != announcer.standby) return;
  if (announcer.arrived - before >= RailSet::kReceiveBatch / kFollowAt) return;
  move_announcements(index);
  if (repeats_announcements_) repeat_announcements();
}

void SpreadReceives::move_announcements(std::optional<uint32_t> best) {
  if (best == announcer_) return;
  record_announced();
  for (Pair& pair : pairs_) pair.arrived_at_announcer = kNone;
  if (!best) {
    announcements_.pause();
  } else {
    const Pair& pair = pairs_[*best];
    connection_.rails().set_clear_to_send_pair(*best);
    const int unconfirmed =
        announcements_.continue_with(announcement_id(*best, pair.epoch), pair.unconfirmed);
    if (announcer_) pairs_[*announcer_].unconfirmed = unconfirmed;
    (void)announcements_.announce_waiting();
  }
  announcer_ = best;
}

// Announces again what may be lost with a pair. The sender ignores the slots that it knows.
void SpreadReceives::repeat_announcements() {
  (void)announcements_.announce_all();  // so that the limit concerns only what is posted later
  record_announced();
  const uint64_t end = announcements_.announced();
  const BufferRange incomplete{oldest_incomplete(end), end};
  const int receives = lost_receives(incomplete);
  write_first_lost(incomplete);
  finish_agreed({.receives = receives});
  apply_limit();
}

int SpreadReceives::lost_receives(const BufferRange& among) const {
  int receives = 0;
  BufferRange lost = announcement_rules_.first_lost(among);
  for (; !lost.empty(); lost = announcement_rules_.first_lost({lost.end, among.end})) {
    receives += incomplete_receives(lost);
  }
  return receives;
}

// One run of slots at a time, the next one once that is confirmed, since the send queue has room
// for no more (ClearToSendWriter::has_room).
void SpreadReceives::write_first_lost(const BufferRange& among) {
  BufferRange lost = announcement_rules_.first_lost(among);
  if (!lost.empty() && !announcement_rules_.awaits_confirmation(*announcer_)) {
    announcement_rules_.on_announced_again(*announcer_, lost);
    (void)announcements_.write_again(lost.first, lost.end);  // a failure loses the pair in turn
    lost = announcement_rules_.first_lost({lost.end, among.end});
  }
  repeats_announcements_ = !lost.empty();
}

void SpreadReceives::finish_agreed(const MovedWork& moved) {
  for (uint32_t pair : agreed_) recovery_.finish(pair, moved);
  agreed_.clear();
}

}  // namespace gdr::transport

#include "transport/data/spread_receives.h"

#include <algorithm>

namespace gdr::transport {
namespace {

constexpr uint32_t kEpochMask = 0xffff;  // of a WorkId
uint64_t receive_id(uint32_t pair, uint32_t epoch) {
  return encode(WorkId{WorkKind::kReceive, pair, epoch, 0});
}

// A pair over which more than so many times as much arrives as over that of clear-to-send is the
// better one. Much less would make clear-to-send move between rails that are about equal.
constexpr uint32_t kFollowAt = 8;

}  // namespace

SpreadReceives::SpreadReceives(Connection& connection, ReceiveSlots& slots, Flushes& flushes)
    : SpreadPath(connection.rails()),
      connection_(connection),
      link_(connection.link()),
      recovery_(*connection.recovery()),
      slots_(slots),
      flushes_(flushes) {
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
  announcements().use(encode(WorkId{WorkKind::kClearToSend, 0, 0, 0}));
}

bool SpreadReceives::progress() {
  ibv_wc completions[SpreadPath::kPollBatch];
  const int count = poll_quietly(link_, completions);
  if (count < 0) [[unlikely]]
    return progress_fully();
  if (count == 0) return true;
  ReceivePair& pair = pairs_.front();
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = completions[i];
    const bool success = wc.status == IBV_WC_SUCCESS;
    if (success && take_whole(pair, wc)) [[likely]]
      continue;
    if (!success || wc.wr_id != slots_.announcements().wr_id()) {
      return take(&wc, count - i);
    }
    slots_.announcements().on_written();
  }
  return true;
}

// Takes the arrival of a message that is one chunk, for the first buffer of a receive, in the
// present epoch of its pair: one comparison stands for all checks of the wr_id, and one for all of
// the immediate. Returns false, without having done anything, where it is another arrival.
inline bool SpreadReceives::take_whole(ReceivePair& pair, const ibv_wc& wc) {
  if (wc.wr_id != pair.receive_id) return false;
  const uint32_t bits = be32toh(wc.imm_data);
  Request* request = slots_.find_whole(bits, pair.stamp, wc);
  if (request == nullptr || !pair.arrivals->count_one(pair.epoch)) return false;
  count_arrival(pair, wc.byte_len);
  slots_.take_whole(request, bits, wc.byte_len);
  refill_if_due(pair);
  return true;
}

bool SpreadReceives::progress_fully() {
  const bool news = recovery_.has_news();
  const bool has_left = link_.peer_left();
  (void)connection_.poll([this](const WorkId& id, const ibv_wc& wc) { on_work(id, wc); });
  if (news) [[unlikely]]
    take_news();
  // While data and the completions of what this end writes come over active pairs alone. A sender
  // that has lost one before this end knows of it writes over another rail meanwhile, which one
  // poll in kPollsPerLookAtAll sees.
  const bool is_well = std::ranges::all_of(
      pairs_, [](const ReceivePair& pair) { return pair.usable || pair.standby; });
  (void)set_quiet(is_well && announcing_ == Announcing::kFreely);
  if (has_left && (link_.awaits_pair() || slots_.oldest_incomplete() != slots_.head())) {
    link_.fail_gone();
  }
  if (connection_.failed()) slots_.end_observation();
  return !connection_.failed();
}

bool SpreadReceives::take(const ibv_wc* completions, int count) {
  connection_.take(completions, count,
                   [this](const WorkId& id, const ibv_wc& wc) { on_work(id, wc); });
  return !connection_.failed() || progress_fully();  // what has completed counts
}

inline void SpreadReceives::on_work(const WorkId& id, const ibv_wc& wc) {
  if (id.kind != WorkKind::kReceive) return on_other(id, wc);
  ReceivePair& pair = pairs_[id.pair];
  if (take_whole(pair, wc)) return;
  if (!pair.arrivals->count_one(id.epoch)) [[unlikely]]
    return refuse_arrival();
  if (pair.epoch != id.epoch) [[unlikely]]
    receive_early(id);
  count_arrival(pair, slots_.take_chunk(wc, id.epoch));
  refill_if_due(pair);
}

void SpreadReceives::on_other(const WorkId& id, const ibv_wc& wc) {
  switch (id.kind) {
    case WorkKind::kClearToSend:
      return on_announced(wc.wr_id);
    case WorkKind::kFlush:
      return flushes_.on_read(id, wc);
    default:
      return connection_.fail(Code::kInternal, "a completion of an unexpected kind");
  }
}

void SpreadReceives::refuse_arrival() {
  connection_.fail(Code::kInternal, "data arrived over a queue pair that both ends had given up");
}

// Replaces a batch of receives; not on a pair that is lost, where what is polled has arrived
// before. rxe does not flush what is posted on a QP in ERROR, and the pair returns once all
// receives have completed. So a pair over rxe stays away if its QP goes to ERROR between the look
// and the post.
void SpreadReceives::refill(uint32_t index) {
  ReceivePair& pair = pairs_[index];
  follow_data(index);
  RailSet& rails = connection_.rails();
  if (rails.pair(index).qp == nullptr) return;
  if (recovery_.arrivals(index).is_lost()) {
    return recovery_.on_consumed(index);
  }
  const int posted = rails.post_receives(index, RailSet::kReceiveBatch, pair.receive_id);
  recovery_.arrivals(index).count_receives(posted);
  if (posted < RailSet::kReceiveBatch) {
    (void)connection_.on_failed_post(rails.pair(index), pair.epoch, "receives", EIO);
  }
}

void SpreadReceives::take_news() {
  while (const std::optional<PairNews> news = recovery_.next_news()) {
    switch (news->kind) {
      case PairNews::Kind::kLost:
        on_lost(news->pair);
        break;
      case PairNews::Kind::kAgreed:
        on_agreed(news->pair);
        break;
      case PairNews::Kind::kReturned:
        on_returned(*news);
        break;
    }
  }
  choose_announcer();
}

void SpreadReceives::on_lost(uint32_t index) {
  pairs_[index].usable = pairs_[index].arrives = false;
  if (index != announcer_) return;
  // What is complete was announced; so nothing is under way where all is.
  const bool is_settled = slots_.oldest_incomplete() == slots_.head();
  const bool is_down = is_settled && announcing_ == Announcing::kFreely;
  announcing_ = is_down ? Announcing::kDown : Announcing::kLost;
  announcements().pause();
}

void SpreadReceives::on_agreed(uint32_t index) {
  const uint32_t rail = pairs_[index].rail;
  const bool is_rail_left = std::ranges::any_of(
      pairs_, [rail](const ReceivePair& pair) { return pair.rail == rail && pair.arrives; });
  if (!is_rail_left) flushes_.stop_rail(rail);
  if (index == announcer_) announcing_ = Announcing::kDown;
  recovery_.finish(index);
}

void SpreadReceives::on_returned(const PairNews& news) {
  ReceivePair& pair = pairs_[news.pair];
  pair.usable = true;
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

void SpreadReceives::begin_epoch(ReceivePair& pair, uint32_t epoch) {
  pair.epoch = epoch;
  pair.stamp = wire::encode({0, 1, wire::stamp_of(0, epoch), /*size_in_table=*/false});
  pair.receive_id = receive_id(pair.index, epoch);
  pair.arrived = 0;
  pair.arrives = true;
  flushes_.start_rail(pair.rail);
}

// ---- clear-to-send

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
  recovery_.arrivals(announcer_).announces = false;
  recovery_.arrivals(index).announces = true;
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

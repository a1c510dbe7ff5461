#include <algorithm>

#include "tests/model/recovery_steps.h"

namespace gdr::model {
namespace {

using transport::PairAgreement;
using transport::PairAgreementKey;
using transport::wire::PairReason;

// A chunk is complete at the sender: acknowledged, or known to have arrived.
void complete(RecoveryState& state, Chunk chunk) {
  state.sender.incomplete[chunk.message] &= static_cast<uint8_t>(~(1u << chunk.number));
}

}  // namespace

bool is_done(const RecoveryState& state, const Bounds& bounds) {
  for (int message = 0; message < bounds.messages; ++message) {
    if (!is_received(state, message, bounds) || state.sender.incomplete[message] != 0) return false;
  }
  return state.sender.sent == bounds.messages;
}

RecoveryState& Steps::add(const char* name, int end, int pair, int detail, bool fault) {
  next_.emplace_back(
      RecoveryModel::Step{name, static_cast<uint8_t>(end), static_cast<uint8_t>(pair),
                          static_cast<uint8_t>(detail), fault},
      now_);
  return next_.back().second;
}

// Whether NCCL calls an end at all: it has requests that are not complete, or more to send or to
// receive. A receive that can be posted is a step of its own.
bool Steps::is_called(int end) const {
  if (end == kSender) {
    if (now_.sender.sent < bounds_.messages) return true;
    return std::any_of(now_.sender.incomplete.begin(), now_.sender.incomplete.end(),
                       [](uint8_t chunks) { return chunks != 0; });
  }
  if (now_.receiver.posted < bounds_.messages && !may_announce()) return true;
  for (int message = 0; message < now_.receiver.posted; ++message) {
    if (!is_received(now_, message, bounds_)) return true;
  }
  return false;
}

void Steps::poll_error(int end, int pair) {
  const Pair& at = pair_of(now_, end, pair);
  if (!at.error_completion || at.agreement.lost() || !is_called(end)) return;
  State& state = add("polls an error", end, pair);
  pair_of(state, end, pair).error_completion = false;
  pair_of(state, end, pair).agreement.on_failure({PairReason::kCompletion, IBV_WC_RETRY_EXC_ERR});
}

void Steps::poll_sent(int end, int pair) {
  if (pair_of(now_, end, pair).unpolled.empty() || !is_called(end)) return;
  if (pair_of(now_, end, pair).unpolled[0] == WorkKind::kLastClearToSend) {
    return poll_confirmation(pair);
  }
  State& state = add("polls a completion", end, pair);
  Pair& at = pair_of(state, end, pair);
  const WorkKind kind = at.unpolled.pop();
  if (kind == WorkKind::kProbe) at.agreement.on_probe_completed(IBV_WC_SUCCESS, kNow);
  if (kind != WorkKind::kChunk) return;
  // The ordinal of a completion is its place in the order of its pair and epoch.
  const uint8_t ordinal = state.sender.acknowledged[pair]++;
  if (ordinal < state.sender.posted[pair].size()) {
    complete(state, state.sender.posted[pair][ordinal]);
  } else {
    state.violation = "more chunks were acknowledged than posted";
  }
}

void Steps::count_arrivals(State& state, int pair) {
  Receiver& receiver = state.receiver;
  while (!receiver.cq[pair].empty()) {
    const Arrival arrival = receiver.cq[pair].pop();
    const uint8_t bit = static_cast<uint8_t>(1u << arrival.chunk.number);
    uint8_t& arrived = receiver.arrived[arrival.chunk.message];
    if (arrival.epoch != pair_of(state, kReceiver, pair).epoch ||
        arrival.chunk.message >= receiver.posted || arrived == all_chunks(bounds_)) {
      state.violation = "data arrived for a receive that is not posted";
    }
    if ((arrived & bit) != 0) state.violation = "a chunk was counted twice";
    arrived |= bit;
    ++receiver.counted[pair];
  }
}

// Takes what has arrived; if the QP is in ERROR, up to the first receive that was flushed.
void Steps::poll_arrivals(int pair) {
  if (!is_called(kReceiver)) return;
  const PairAgreement& before = pair_of(now_, kReceiver, pair).agreement;
  const bool counts = PairAgreementKey::stopped(before) && !PairAgreementKey::counted(before);
  if (!counts && now_.receiver.cq[pair].empty()) return;
  State& state = add(counts ? "polls all arrivals" : "polls arrivals", kReceiver, pair);
  count_arrivals(state, pair);
  if (counts) {
    pair_of(state, kReceiver, pair).agreement.on_counted(state.receiver.counted[pair], kNow);
  }
}

// The data path takes over what was on a pair that is down at both ends.
void Steps::take_over(State& state, int end, int pair) {
  Pair& at = pair_of(state, end, pair);
  at.uses = false;
  at.taken_over = true;
  if (end == kReceiver) {
    if (pair == state.receiver.announcer) state.receiver.announcing = Announcing::kDown;
  } else {
    Sender& sender = state.sender;
    uint64_t arrived = at.agreement.peer().arrived;
    const transport::ChunkCounts chunks{sender.acknowledged[pair], sender.posted[pair].size()};
    if (is(Mutation::kSendsEverythingAgain) || is(Mutation::kSendsAgainBeforeAgreement)) {
      arrived = chunks.acknowledged;
    }
    if (!transport::check_arrived(chunks, arrived) && !is(Mutation::kNoCheckOfArrived)) {
      state.outcome = Outcome::kDataLost;
      if (!state.lost_in_hca) state.violation = "a healthy HCA was taken for one that loses data";
    }
    for (size_t i = 0; i < chunks.posted; ++i) {
      const Chunk chunk = sender.posted[pair][i];
      if (i < arrived) {
        complete(state, chunk);
      } else if (!is(Mutation::kNeverSendsAgain)) {
        sender.again[chunk.message] |=
            static_cast<uint8_t>(sender.incomplete[chunk.message] & 1u << chunk.number);
      }
    }
    sender.posted[pair].clear();
    sender.acknowledged[pair] = 0;
  }
  // What is still in the CQ is of an epoch that ended.
  if (!is(Mutation::kOldCompletionsCount)) at.unpolled.clear();
  at.agreement.on_data_path_done();
}

// A pair that is lost again before the data path uses it has nothing to be taken over. Only its CQ
// has to be polled.
void Steps::finish_unused(int end, int pair) {
  Pair& at = pair_of(add("finishes with an unused pair", end, pair), end, pair);
  if (!is(Mutation::kOldCompletionsCount)) at.unpolled.clear();
  at.agreement.on_data_path_done();
}

void Steps::take_news(int end, int pair) {
  const Pair& at = pair_of(now_, end, pair);
  if (!is_called(end)) return;
  const bool before = is(Mutation::kSendsAgainBeforeAgreement) && end == kSender;
  if ((at.agreement.recovered() || (before && at.agreement.step() % 2 == 1)) && !at.taken_over) {
    take_over(add("takes over", end, pair), end, pair);
  } else if (at.agreement.lost() && at.uses) {
    State& state = add("stops using", end, pair);
    pair_of(state, end, pair).uses = false;
    Receiver& receiver = state.receiver;
    const bool is_announcer = end == kReceiver && pair == receiver.announcer;
    if (!is_announcer) return;
    receiver.announcing =
        is(Mutation::kReplacesLostAnnouncerTooEarly) ? Announcing::kDown : Announcing::kFreely;
  } else if (at.agreement.recovered() && !PairAgreementKey::data_path_done(at.agreement)) {
    finish_unused(end, pair);
  }
  const bool early = is(Mutation::kUsesPairTooEarly) && end == kSender && !at.agreement.lost();
  if (!(at.agreement.usable() || early) || at.uses) return;
  State& state = add("uses again", end, pair);
  pair_of(state, end, pair).uses = true;
  pair_of(state, end, pair).taken_over = false;
  if (end == kSender && !is(Mutation::kOldCompletionsCount)) {
    state.sender.posted[pair].clear();
    state.sender.acknowledged[pair] = 0;
  }
}

// Sends the next message, its chunks over any pairs that the data path uses.
void Steps::send() {
  const Sender& before = now_.sender;
  const int message = before.sent;
  if (message >= bounds_.messages || before.ring[message % bounds_.slots] != message + 1) return;
  const int combinations = bounds_.chunks == 1 ? bounds_.pairs : bounds_.pairs * bounds_.pairs;
  for (int choice = 0; choice < combinations; ++choice) {
    const int pairs[] = {choice % bounds_.pairs, choice / bounds_.pairs};
    const bool possible = std::all_of(pairs, pairs + bounds_.chunks,
                                      [&](int pair) { return pair_of(now_, kSender, pair).uses; });
    if (!possible) continue;
    State& state = add("sends", kSender, pairs[0], pairs[1]);
    ++state.sender.sent;
    state.sender.incomplete[message] = all_chunks(bounds_);
    for (int i = 0; i < bounds_.chunks; ++i) {
      const Chunk chunk{static_cast<uint8_t>(message), static_cast<uint8_t>(i)};
      state.sender.posted[pairs[i]].push(chunk);
      post(state, kSender, pairs[i], Work{.kind = WorkKind::kChunk, .chunk = chunk});
    }
  }
}

void Steps::send_again() {
  const auto& again = now_.sender.again;
  const auto first = std::find_if(again.begin(), again.end(), [](uint8_t bits) { return bits; });
  if (first == again.end()) return;
  const Chunk chunk{static_cast<uint8_t>(first - again.begin()),
                    static_cast<uint8_t>((*first & 1) != 0 ? 0 : 1)};
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    if (!pair_of(now_, kSender, pair).uses) continue;
    State& state = add("sends again", kSender, pair);
    if (now_.sender.ring[chunk.message % bounds_.slots] != chunk.message + 1) {
      state.violation = "a chunk is sent again to where an old slot points";
    }
    state.sender.again[chunk.message] &= static_cast<uint8_t>(~(1u << chunk.number));
    state.sender.posted[pair].push(chunk);
    post(state, kSender, pair, Work{.kind = WorkKind::kChunk, .chunk = chunk});
  }
}

void Steps::post_receive() {
  const Receiver& before = now_.receiver;
  const int message = before.posted;
  if (message >= bounds_.messages) return;
  int outstanding = 0;
  for (int i = 0; i < message; ++i) outstanding += is_received(now_, i, bounds_) ? 0 : 1;
  const int earlier = message - bounds_.slots;
  if (outstanding >= bounds_.outstanding) return;
  if (earlier >= 0 && !is_received(now_, earlier, bounds_)) return;
  if (!may_announce() && !is(Mutation::kReusesSlotsTooEarly)) return;
  ++add("posts a receive", kReceiver).receiver.posted;
}

bool Steps::may_announce() const {
  const Receiver& receiver = now_.receiver;
  return receiver.announcing == Announcing::kFreely &&
         pair_of(now_, kReceiver, receiver.announcer).uses;
}

void Steps::announce() {
  const Receiver& before = now_.receiver;
  if (!may_announce() || before.announced == before.posted) return;
  State& state = add("announces", kReceiver, before.announcer);
  state.receiver.announced = before.posted;
  post(state, kReceiver, before.announcer,
       Work{.kind = WorkKind::kClearToSend, .first = before.announced, .end = before.posted});
}

// Another pair is to announce: the receiver may choose any at any time.
void Steps::move_announcer() {
  if (!bounds_.moves || bounds_.pairs == 1 || !may_announce()) return;
  const uint8_t announcer = now_.receiver.announcer;
  if (is(Mutation::kMovesUnconfirmed)) return move_unconfirmed();
  confirm(add("confirms its announcements", kReceiver, announcer), now_.receiver.announced);
}

void Steps::move_unconfirmed() {
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    if (!pair_of(now_, kReceiver, pair).uses) continue;
    add("announces over another pair", kReceiver, pair).receiver.announcer =
        static_cast<uint8_t>(pair);
  }
}

// The announcer is down at both ends.
void Steps::announce_again(int pair) {
  if (now_.receiver.announcing != Announcing::kDown || !pair_of(now_, kReceiver, pair).uses) return;
  State& state = add("announces again", kReceiver, pair);
  state.receiver.announcer = static_cast<uint8_t>(pair);
  if (is(Mutation::kNeverAnnouncesAgain)) {
    state.receiver.announcing = Announcing::kFreely;
  } else {
    confirm(state, oldest_incomplete(now_, bounds_));
  }
}

// Writes the slots from that of buffer `first` on, at least the last one, and waits for the
// completion.
void Steps::confirm(State& state, uint8_t first) {
  Receiver& receiver = state.receiver;
  receiver.announced = receiver.posted;
  receiver.announcing = Announcing::kConfirms;
  if (first == receiver.posted && first > 0) --first;
  post(state, kReceiver, receiver.announcer,
       Work{.kind = WorkKind::kLastClearToSend, .first = first, .end = receiver.posted});
}

// All that was written over the announcer before has arrived: any pair may announce.
void Steps::poll_confirmation(int from) {
  const Receiver& before = now_.receiver;
  const bool is_present = before.announcer == from && before.announcing == Announcing::kConfirms;
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    if (is_present ? !pair_of(now_, kReceiver, pair).uses : pair != from) continue;
    State& state = add("polls a confirmation", kReceiver, from, pair);
    (void)pair_of(state, kReceiver, from).unpolled.pop();
    if (!is_present) continue;
    state.receiver.announcing = Announcing::kFreely;
    state.receiver.announcer = static_cast<uint8_t>(pair);
  }
}

}  // namespace gdr::model

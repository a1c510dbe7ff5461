#include <algorithm>

#include "tests/model/recovery_steps.h"

namespace gdr::model {
namespace {

using transport::PairAction;
using transport::PairAgreement;
using transport::PairAgreementKey;
using transport::wire::PairReason;

transport::wire::PairStatement to_wire(const Stated& stated) {
  transport::wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = stated.serial;
  statement.step = stated.step;
  statement.seen = stated.seen;
  statement.pair = stated.pair;
  statement.asks = stated.asks ? 1 : 0;
  statement.arrived = stated.arrived;
  return statement;
}

Stated from_wire(const transport::wire::PairStatement& statement) {
  return Stated{.serial = statement.serial_first,
                .pair = static_cast<uint8_t>(statement.pair),
                .step = static_cast<uint8_t>(statement.step),
                .seen = static_cast<uint8_t>(statement.seen),
                .arrived = static_cast<uint8_t>(statement.arrived),
                .asks = statement.asks != 0};
}

}  // namespace

void Steps::take_event(int end, int pair) {
  const Pair& at = pair_of(now_, end, pair);
  if (!at.event || at.agreement.lost()) return;
  State& state = add("takes an event", end, pair);
  pair_of(state, end, pair).event = false;
  pair_of(state, end, pair).agreement.on_failure({PairReason::kQueuePair});
}

// Where no receive is outstanding, nothing that is not counted can be in the CQ.
void Steps::count_without_data_path(int pair) {
  const PairAgreement& agreement = pair_of(now_, kReceiver, pair).agreement;
  if (!PairAgreementKey::stopped(agreement) || PairAgreementKey::counted(agreement)) return;
  if (is_called(kReceiver) && !is(Mutation::kStatesBeforeCounting)) return;
  State& state = add("its watcher counts", kReceiver, pair);
  if (!is_called(kReceiver) && !state.receiver.cq[pair].empty()) {
    state.violation = "the watcher missed arrivals";
  }
  pair_of(state, kReceiver, pair).agreement.on_counted(state.receiver.counted[pair], kNow);
}

// Whether what an end would state of a pair is still on its way. To repeat it then would lead to
// nothing new.
bool Steps::is_on_its_way(int end, int pair) const {
  const PairAgreement& agreement = pair_of(now_, end, pair).agreement;
  auto same = [&](const Stated& stated) {
    return stated.pair == pair && stated.step == agreement.step() &&
           stated.seen == agreement.peer().step;
  };
  const auto& socket = now_.end[end].socket;
  if (std::any_of(socket.begin(), socket.end(), same)) return true;
  for (int over = 0; over < bounds_.pairs; ++over) {
    const Pair& carrier = pair_of(now_, end, over);
    for (const Work& work : carrier.sent) {
      if (!carrier.error && work.kind == WorkKind::kStatement && same(work.statement)) return true;
    }
  }
  const Pair& other = pair_of(now_, 1 - end, pair);
  return PairAgreementKey::is_new(other.agreement, other.table.serial) && same(other.table);
}

bool Steps::may_carry(const PairAgreement& pair) const {
  return is(Mutation::kStatesOverUsablePairs) ? pair.usable() : pair.carries_statements();
}

// States the step over the socket and over each pair that is ready at both ends.
void Steps::state_step(int end, int pair) {
  const PairAgreement& agreement = pair_of(now_, end, pair).agreement;
  bool wanted = agreement.statement_due() || agreement.unseen();
  if (is(Mutation::kStatesOnce)) wanted = agreement.statement_due();
  if (is(Mutation::kAsksUntilSeen)) {
    wanted = agreement.statement_due() || PairAgreementKey::peer_seen(agreement) < agreement.step();
  }
  if (!wanted || is_on_its_way(end, pair)) return;
  const auto& socket = now_.end[end].socket;
  const bool waits = std::any_of(socket.begin(), socket.end(),
                                 [&](const Stated& stated) { return stated.pair == pair; });
  if (waits) return;
  const bool by_socket = now_.socket;
  bool carried = false;
  for (int over = bounds_.pairs - 1; over >= -1; --over) {
    if (over < 0 && (carried || !by_socket)) continue;
    if (over >= 0 && !bounds_.tables) continue;
    if (over >= 0 && !may_carry(pair_of(now_, end, over).agreement)) continue;
    carried = true;
    State& state = add("states its step", end, pair, over + 1);
    Stated stated = from_wire(pair_of(state, end, pair).agreement.make_statement());
    if (is(Mutation::kArrivedIsNotKept) && stated.step % 2 == 0) stated.arrived = 0;
    if (by_socket) state.end[end].socket.push(stated);
    if (over >= 0) {
      post(state, end, over, Work{.kind = WorkKind::kStatement, .statement = stated});
    }
  }
}

void Steps::take_statement(State& state, int end, const Stated& statement) {
  PairAgreement& agreement = pair_of(state, end, statement.pair).agreement;
  if (!agreement.on_statement(to_wire(statement), kNow)) {
    state.violation = "a statement contradicts the protocol";
  }
}

void Steps::read_socket(int end) {
  if (now_.end[1 - end].socket.empty()) return;
  State& state = add("reads the socket", end);
  take_statement(state, end, state.end[1 - end].socket.pop());
}

void Steps::read_table(int end, int pair) {
  const Pair& at = pair_of(now_, end, pair);
  if (!PairAgreementKey::is_new(at.agreement, at.table.serial)) return;
  State& state = add("reads its tables", end, pair);
  take_statement(state, end, at.table);
}

void Steps::revive(int end, int pair) {
  const Pair& before = pair_of(now_, end, pair);
  PairAgreement agreement = before.agreement;
  const uint32_t peer_step = agreement.peer().step;
  const bool early = is(Mutation::kRevivesTooEarly) && agreement.step() % 2 == 1;
  if (early) PairAgreementKey::set_peer_step(&agreement, std::max(peer_step, agreement.step()));
  if (early || is(Mutation::kRevivesBeforeDataPath)) agreement.on_data_path_done();
  if (agreement.next(kLater) != PairAction::kRevive) return;
  const int first = bounds_.after_a_return && pair == 0 ? 1 : 0;
  if (agreement.epoch() + 1 >= static_cast<uint32_t>(first + bounds_.epochs)) return;
  State& state = add("revives", end, pair);
  Pair& at = pair_of(state, end, pair);
  agreement.on_revived();
  if (early) PairAgreementKey::set_peer_step(&agreement, peer_step);
  at.agreement = agreement;
  at.error = at.error_completion = at.event = false;
  at.epoch = static_cast<uint8_t>(agreement.epoch());
  if (!is(Mutation::kSamePacketNumbers)) at.sent.clear();
  if (!is(Mutation::kOldCompletionsCount)) at.unpolled.clear();
  if (end == kSender) return;
  if (!state.receiver.cq[pair].empty()) state.violation = "arrivals were not counted";
  state.receiver.counted[pair] = 0;
}

void Steps::probe(int end, int pair) {
  if (pair_of(now_, end, pair).agreement.next(kLater) != PairAction::kProbe) return;
  State& state = add("probes", end, pair);
  pair_of(state, end, pair).agreement.returns().on_probe_posted();
  post(state, end, pair, Work{.kind = WorkKind::kProbe});
}

// The sender's watcher checks what the receiver states, as the data path may not be called.
void Steps::check_arrived(int pair) {
  if (is(Mutation::kNoCheckOfArrived) || is(Mutation::kDataPathChecksAlone)) return;
  const Pair& at = pair_of(now_, kSender, pair);
  if (!at.agreement.recovered() || at.taken_over) return;
  const transport::ChunkCounts chunks{now_.sender.acknowledged[pair],
                                      now_.sender.posted[pair].size()};
  if (transport::check_arrived(chunks, at.agreement.peer().arrived)) return;
  State& state = add("its watcher finds that data was lost", kSender, pair);
  state.outcome = Outcome::kDataLost;
  if (!state.lost_in_hca) state.violation = "a healthy HCA was taken for one that loses data";
}

void Steps::fail_without_pair(int end) {
  if (bounds_.ports_flap) return;
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    const PairAgreement& agreement = pair_of(now_, end, pair).agreement;
    if (agreement.usable() || agreement.awaits_probe()) return;
  }
  State& state = add("has no pair left", end);
  state.outcome = Outcome::kNoPair;
  if (state.failed_pairs + 1 != 1 << bounds_.pairs) {
    state.violation = "the connection failed although a pair never did";
  }
}

}  // namespace gdr::model

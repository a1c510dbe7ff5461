#include "tests/model/recovery_steps.h"

namespace gdr::model {

void post(RecoveryState& state, int end, int pair, const Work& work) {
  Pair& at = state.end[end].pair[pair];
  if (at.error) {
    at.error_completion = true;
  } else {
    at.sent.push(work);
  }
}

namespace {

// A chunk's data and immediate arrive at the receiver.
void take_chunk(RecoveryState& state, int pair, const Work& work, const Bounds& bounds) {
  const Chunk chunk = work.chunk;
  if (is_received(state, chunk.message, bounds)) {
    state.violation = "a write changed a buffer whose receive was complete";
  }
  if ((state.sender.incomplete[chunk.message] >> chunk.number & 1) == 0) {
    state.violation = "a write came from a buffer whose send was complete";
  }
  state.receiver.cq[pair].push({chunk, state.end[kReceiver].pair[pair].epoch});
}

void take_slots(RecoveryState& state, const Work& work, const Bounds& bounds) {
  for (uint8_t buffer = work.first; buffer < work.end; ++buffer) {
    uint8_t& slot = state.sender.ring[buffer % bounds.slots];
    if (slot > buffer + 1) state.violation = "a late write replaced a newer slot";
    if (state.receiver.posted > buffer + bounds.slots) {
      state.violation = "a slot was filled again before a write of it was read";
    }
    slot = static_cast<uint8_t>(buffer + 1);
  }
}

}  // namespace

// The oldest work request of a queue pair arrives at the other end.
void Steps::deliver(int end, int pair) {
  const Pair& from = pair_of(now_, end, pair);
  const Pair& to = pair_of(now_, 1 - end, pair);
  if (from.sent.empty() || !now_.link[pair] || to.error || to.epoch != from.epoch) return;
  State& state = add("a work request arrives from", end, pair);
  const Work work = pair_of(state, end, pair).sent.pop();
  if (work.kind == WorkKind::kChunk) take_chunk(state, pair, work, bounds_);
  if (work.kind == WorkKind::kClearToSend || work.kind == WorkKind::kLastClearToSend) {
    take_slots(state, work, bounds_);
  }
  if (work.kind == WorkKind::kProbe) {
    transport::PairAgreement& agreement = pair_of(state, 1 - end, pair).agreement;
    if (from.epoch == agreement.epoch()) agreement.returns().on_peer_probed();
  }
  if (work.kind == WorkKind::kStatement) {
    pair_of(state, 1 - end, work.statement.pair).table = work.statement;
  }
  // A QP in ERROR takes no acknowledgement.
  const bool completes = work.kind != WorkKind::kStatement && work.kind != WorkKind::kClearToSend;
  if (completes && !from.error) {
    pair_of(state, end, pair).unpolled.push(work.kind);
  }
}

// Adds a step for each number of acknowledgements that have come before the QP is in ERROR.
template <class Then>
void Steps::move_to_error(const char* name, int end, int pair, int detail, bool fault,
                          Then&& then) {
  const Pair& before = pair_of(now_, end, pair);
  const size_t unpolled = before.unpolled.size();
  for (size_t kept = before.error ? unpolled : 0; kept <= unpolled; ++kept) {
    State& state = add(name, end, pair, detail, fault);
    Pair& at = pair_of(state, end, pair);
    if (!at.error && (end == kReceiver || !at.sent.empty() || kept < unpolled)) {
      at.error_completion = true;  // the receiver's receives are flushed
    }
    at.error = true;
    at.unpolled.cut(kept);
    then(state);
  }
}

// The other end does not answer.
void Steps::exceed_retries(int end, int pair) {
  const Pair& from = pair_of(now_, end, pair);
  const Pair& to = pair_of(now_, 1 - end, pair);
  if (from.error || (from.sent.empty() && from.unpolled.empty())) return;
  if (now_.link[pair] && !to.error && to.epoch == from.epoch) return;
  move_to_error("retries are exceeded at", end, pair, 0, false,
                [&](State& state) { pair_of(state, end, pair).error_completion = true; });
}

void Steps::fail_queue_pair(int end, int pair) {
  if (!bounds_.queue_pair_errors || pair_of(now_, end, pair).error) return;
  if (end == kSender && !bounds_.sender_fails) return;
  for (const bool event : {true, false}) {
    if (!event && !bounds_.silent_failures) return;
    move_to_error("the QP fails at", end, pair, event, true, [&](State& state) {
      pair_of(state, end, pair).event |= event;
      ++state.failures;
      state.failed_pairs |= static_cast<uint8_t>(1u << pair);
    });
  }
}

// Packets do not pass any more; either port, or none, is reported as down.
void Steps::fail_link(int pair) {
  if (!bounds_.link_losses || !now_.link[pair]) return;
  for (const int reported : {-1, kSender, kReceiver}) {
    State& state = add("the link fails at", reported == kReceiver, pair, reported + 1, true);
    state.link[pair] = false;
    ++state.failures;
    state.failed_pairs |= static_cast<uint8_t>(1u << pair);
    if (reported < 0) continue;
    Pair& at = pair_of(state, reported, pair);
    at.event = true;
    at.agreement.returns().set_port_active(false);
  }
}

// The receiver's HCA fails with arrivals that it has acknowledged and nobody has seen.
void Steps::lose_receivers_hca(int pair) {
  const Pair& at = pair_of(now_, kReceiver, pair);
  if (!bounds_.hca_losses || at.error || now_.receiver.cq[pair].empty()) return;
  State& state = add("the HCA is lost at", kReceiver, pair, 0, true);
  Pair& lost = pair_of(state, kReceiver, pair);
  lost.error = lost.event = true;
  lost.unpolled.clear();
  lost.agreement.returns().set_port_active(false);
  state.receiver.cq[pair].clear();
  state.lost_in_hca = true;
  ++state.failures;
  state.failed_pairs |= static_cast<uint8_t>(1u << pair);
}

void Steps::repair_link(int pair) {
  if (now_.link[pair] || now_.repairs >= bounds_.repairs) return;
  State& state = add("the link is repaired at", kSender, pair, 0, true);
  state.link[pair] = true;
  ++state.repairs;
  for (End& end : state.end) end.pair[pair].agreement.returns().set_port_active(true);
}

// Each end has an event of its own pair, and learns of the other one's by statements.
void Steps::flap_ports() {
  if (pair_of(now_, kSender, 0).error || pair_of(now_, kReceiver, 1).error) return;
  move_to_error("ports flap at both ends, at first", kSender, 0, 0, true, [&](State& state) {
    pair_of(state, kSender, 0).event = true;
    Pair& other = pair_of(state, kReceiver, 1);
    other.error = other.error_completion = other.event = true;
    other.unpolled.clear();
    state.failures = static_cast<uint8_t>(bounds_.failures);
    state.failed_pairs = 3;
  });
}

void Steps::fail_something() {
  for (int pair = 0; pair < bounds_.pairs; ++pair) repair_link(pair);
  if (now_.failures >= bounds_.failures) return;
  if (bounds_.ports_flap) return flap_ports();
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    for (int end : {kSender, kReceiver}) fail_queue_pair(end, pair);
    fail_link(pair);
    lose_receivers_hca(pair);
  }
  if (now_.socket && bounds_.socket_losses) {
    State& state = add("the socket is lost at", kSender, 0, 0, true);
    state.socket = false;
    ++state.failures;
    for (End& end : state.end) end.socket.clear();
  }
  const bool carries = !now_.end[kSender].socket.empty() || !now_.end[kReceiver].socket.empty();
  if (carries && bounds_.socket_replacements) {
    State& state = add("the socket is replaced at", kSender, 0, 0, true);
    ++state.failures;
    for (End& end : state.end) end.socket.clear();
  }
}

void Steps::all() {
  if (now_.outcome != Outcome::kNone || now_.violation != nullptr) return;
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    for (int end : {kSender, kReceiver}) deliver(end, pair);
  }
  if (is_done(now_, bounds_)) return;
  for (int end : {kSender, kReceiver}) {
    for (int pair = 0; pair < bounds_.pairs; ++pair) {
      exceed_retries(end, pair);
      poll_error(end, pair);
      poll_sent(end, pair);
      take_news(end, pair);
      take_event(end, pair);
      stop(end, pair);
      state_step(end, pair);
      read_table(end, pair);
      revive(end, pair);
      probe(end, pair);
    }
    read_socket(end);
    fail_without_pair(end);
  }
  for (int pair = 0; pair < bounds_.pairs; ++pair) {
    poll_arrivals(pair);
    count_without_data_path(pair);
    check_arrived(pair);
    announce_again(pair);
  }
  announce();
  move_announcer();
  send();
  send_again();
  post_receive();
  fail_something();
}

// Moves the QP to ERROR as the agreement asks for. The end learns later that it is there: another
// thread moves it, and the HCA may take its time.
void Steps::stop(int end, int pair) {
  const Pair& at = pair_of(now_, end, pair);
  if (at.agreement.next(kLater) != transport::PairAction::kStop) return;
  if (is(Mutation::kReceiverKeepsQueuePair) && end == kReceiver) {
    pair_of(add("moves no QP to ERROR", end, pair), end, pair).agreement.on_stopped(kNow);
    return;
  }
  if (!at.error) return move_to_error("moves the QP to ERROR", end, pair, 0, false, [](State&) {});
  transport::PairAgreement& agreement =
      pair_of(add("has moved the QP to ERROR", end, pair), end, pair).agreement;
  const uint32_t peer_step = agreement.peer().step;
  if (is(Mutation::kGoesDownTooEarly)) {
    transport::PairAgreementKey::set_peer_step(&agreement, agreement.step());
  }
  agreement.on_stopped(kNow);
  if (is(Mutation::kGoesDownTooEarly)) {
    transport::PairAgreementKey::set_peer_step(&agreement, peer_step);
  }
}

}  // namespace gdr::model

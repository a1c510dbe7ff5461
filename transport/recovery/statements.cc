#include <algorithm>

#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {
namespace {

using Pair = RecoveryState::Pair;
using std::chrono::milliseconds;

// Pauses between the repetitions of a statement that the peer has not seen.
constexpr milliseconds kFirstRepeat{200};
constexpr milliseconds kLastRepeat{10000};

// Whether an HCA may still read the statement about the pair, which the next one would overwrite.
bool is_being_written(const RecoveryState& state, const Pair& pair) {
  if (!pair.stated_over) return false;
  const Pair& by = state.pairs[*pair.stated_over];
  return !by.is_stopped() && !by.is_hopeless();
}

// Takes the usable pairs in turn, since one of them may be lost without anybody knowing it yet.
Pair* choose_carrier(RecoveryState& state) {
  for (size_t tries = 0; tries < state.pairs.size(); ++tries) {
    state.carrier = (state.carrier + 1) % static_cast<uint32_t>(state.pairs.size());
    Pair& pair = state.pairs[state.carrier];
    const bool carries = pair.agreement.carries_statements() && !pair.flushed_at;
    if (carries && pair.reserved < kReservedWrites) return &pair;
  }
  return nullptr;
}

void end_statement(RecoveryState& state, const WorkId& id) {
  Pair& about = state.pairs[id.ordinal];
  if (about.stated_over == id.pair) about.stated_over.reset();
}

// Over both the socket and RDMA, as either may be interrupted. What is not written over RDMA now
// is repeated.
void state_pair(RecoveryState& state, Pair& pair, RecoveryTime now) {
  const bool repeated = !pair.agreement.statement_due();
  pair.pause = repeated ? std::min(2 * pair.pause, kLastRepeat) : kFirstRepeat;
  pair.state_at = now + pair.pause;
  const wire::PairStatement statement = pair.agreement.make_statement();
  state.link->send_statement(statement);
  if (is_being_written(state, pair)) return;
  Pair* by = choose_carrier(state);
  if (by == nullptr) return;
  const WorkId id{WorkKind::kStatement, by->index, by->agreement.epoch(), pair.index};
  if (state.io.post_statement(by->index, statement, encode(id)) != 0) {
    by->arrivals.lost.store(true, std::memory_order_release);  // it may be stopped before its step
    return by->agreement.on_failure({wire::PairReason::kPost});
  }
  ++by->reserved;
  if (state.io.reads_statement_later(by->index)) pair.stated_over = by->index;
}

}  // namespace

// A pair that carries nothing shows nothing: that its path does not work would be noticed when it
// is needed. One end is enough, since a write that is acknowledged has used both directions.
void prove_standby(RecoveryState& state) {
  if (!state.recovers || !state.sends()) return;
  for (Pair& pair : state.pairs) {
    if (!pair.stands_by || pair.agreement.lost()) continue;
    const WorkId id{WorkKind::kProbe, pair.index, 0, kStandbyProbe};
    if (state.io.post_probe(pair.index, encode(id), wire::kProbeBytes) == 0) ++pair.reserved;
  }
}

bool probe_peer(RecoveryState& state) {
  if (state.peer_probe_on) return true;
  Pair* carrier = choose_carrier(state);
  if (carrier == nullptr) return false;
  const WorkId id{WorkKind::kProbe, carrier->index, carrier->agreement.epoch(), kPeerProbe};
  if (state.io.post_probe(carrier->index, encode(id), 0) != 0) return false;
  ++carrier->reserved;
  state.peer_probe_on = carrier->index;
  return true;
}

void probe_return(RecoveryState& state, Pair& pair) {
  const uint32_t epoch = pair.agreement.epoch();
  const WorkId id{WorkKind::kProbe, pair.index, epoch, kReturnProbe};
  if (state.io.post_return_probe(pair.index, epoch, encode(id)) != 0) {
    return pair.agreement.on_failure({wire::PairReason::kPost});
  }
  pair.reserved += 2;
  pair.agreement.returns().on_probe_posted();
}

void take_statement(RecoveryState& state, const wire::PairStatement& statement, RecoveryTime now) {
  if (statement.pair >= state.pairs.size()) {
    return state.fail(Code::kInternal, "the peer states a pair that this connection does not have");
  }
  Pair& pair = state.pairs[statement.pair];
  Status taken = pair.agreement.on_statement(statement, now);
  if (!taken) state.fail(taken.error().code, taken.error().text);
  // As in take_completion(): the peer's requests fail for it, too.
  const bool is_peers = pair.agreement.cause().reason == wire::PairReason::kPeer;
  if (pair.agreement.lost() && is_peers && state.is_port_down(pair)) {
    pair.agreement.on_failure({wire::PairReason::kPortDown}, /*known=*/true);
  }
}

// Only what is newer than what is known counts, so that reading it again does no harm.
void read_statements(RecoveryState& state, RecoveryTime now) {
  for (uint32_t i = 0; i < state.pairs.size(); ++i) {
    const auto statement = read_statement(state.io.peer_statement(i));
    if (statement && statement->pair == i) take_statement(state, *statement, now);
  }
}

void state_pairs(RecoveryState& state, RecoveryTime now) {
  for (Pair& pair : state.pairs) {
    const bool again = pair.agreement.unseen() && now >= pair.state_at;
    if (pair.agreement.statement_due() || again) state_pair(state, pair, now);
  }
}

void on_own_write(RecoveryState& state, const WorkId& id, RecoveryTime now) {
  Pair& pair = state.pairs[id.pair];
  --pair.reserved;
  if (id.kind == WorkKind::kStatement) return end_statement(state, id);
  if (id.ordinal == kPeerProbe) {
    state.link->end_probe();
    state.peer_probe_on.reset();
  } else if (id.ordinal == kReturnProbe) {
    --pair.reserved;  // it is two writes
    pair.agreement.on_probe_completed(IBV_WC_SUCCESS, now);
  }
}

void on_own_failure(RecoveryState& state, const WorkId& id, ibv_wc_status status,
                    RecoveryTime now) {
  if (id.kind == WorkKind::kStatement) return end_statement(state, id);
  Pair& pair = state.pairs[id.pair];
  if (id.ordinal == kReturnProbe) pair.agreement.on_probe_completed(status, now);
  if (id.ordinal == kPeerProbe) state.peer_probe_on.reset();
  if (id.ordinal == kMarker) pair.rest = RecoveryState::Rest::kSent;
}

}  // namespace gdr::transport

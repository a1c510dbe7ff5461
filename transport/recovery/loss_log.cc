#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/log.h"
#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_parts.h"

namespace gdr::transport {
namespace {

using Pair = RecoveryState::Pair;
using std::chrono::milliseconds;

// A loss is logged when both ends have agreed on it, so that the peer's cause is known, or after
// this time.
constexpr milliseconds kLogAfter{1000};
// A rail that has not returned for so long is warned of where its port is active.
constexpr std::chrono::seconds kStaysLostAfter{60};

// The ports of this end over which the connection goes on: of active pairs, else of standby pairs,
// else of further pairs between the same two ports, which are lost soon.
std::string usable_ports(const RecoveryState& state, const Pair& but) {
  std::array<std::set<std::string>, 3> ports;
  for (const Pair& pair : state.pairs) {
    if (!pair.agreement.usable()) continue;
    const bool is_same = state.io.path_text(pair.index) == state.io.path_text(but.index);
    const std::string port = state.io.port_text(pair.index);
    ports[is_same ? 2 : pair.stands_by ? 1 : 0].insert(port + (pair.stands_by ? " (standby)" : ""));
  }
  std::string text;
  for (const std::set<std::string>& of_a_kind : ports) {
    if (!text.empty()) break;
    for (const std::string& port : of_a_kind) text += (text.empty() ? "" : " + ") + port;
  }
  return text;
}

// Whether one of the ends has logged a warning of its own, which says more. This end's own cause
// may only follow from the peer's, as a probe to a QP that is not connected fails.
bool is_explained(const Pair& pair) {
  const wire::PairReason here = pair.agreement.cause().reason;
  if (here == wire::PairReason::kWithdrawn) return true;
  const auto is_given_up = [](wire::PairReason reason) {
    return reason == wire::PairReason::kWithdrawn || reason == wire::PairReason::kNotConnected;
  };
  return pair.stands_by && (is_given_up(here) || is_given_up(pair.agreement.peer().cause.reason));
}

// What a pair that is not usable waits for.
const char* awaited_text(const Pair& pair) {
  if (pair.agreement.lost() && !pair.agreement.recovered()) {
    return "the ends have not agreed yet on what has arrived";
  }
  return pair.may_return() ? "tried again from time to time" : "not used again";
}

}  // namespace

RailLoss describe_loss(const RecoveryState& state, const Pair& pair) {
  RailLoss loss;
  loss.host = state.io.set_up().host;
  loss.port = state.io.port_text(pair.index);
  loss.peer = state.io.peer_text(pair.index);
  loss.cause = pair.agreement.cause();
  // A time-out is how a port that is down shows where its event comes later.
  if (loss.cause.is_of_a_request() && state.is_port_down(pair)) {
    loss.cause.reason = wire::PairReason::kPortDown;
  }
  // After a loss, until the peer has gone down as well, what it has stated is of an earlier one.
  const uint32_t step = pair.agreement.step();
  const bool is_of_this_loss = loss.cause.reason == wire::PairReason::kPeer || step % 2 == 0 ||
                               pair.agreement.peer().step >= step;
  if (is_of_this_loss) loss.peer_cause = pair.agreement.peer().cause;
  // One that the connection has moved to is missed like any other.
  const bool stood_by = pair.stands_by && std::ranges::any_of(state.pairs, [](const Pair& other) {
                          return !other.stands_by && other.agreement.usable();
                        });
  loss.may_return = pair.may_return();
  loss.usable = usable_ports(state, pair);
  loss.waits = std::chrono::duration_cast<milliseconds>(state.patience);
  if (loss.usable.empty()) {
    loss.effect = LossEffect::kWaits;
  } else if (is_explained(pair)) {
    loss.effect = LossEffect::kExplained;
  } else if (stood_by) {
    loss.effect = LossEffect::kStoodBy;
  }
  return loss;
}

void note_loss(RecoveryState& state, Pair& pair, RecoveryTime now) {
  pair.lost_at = now;
  if (pair.logged != RecoveryState::Logged::kNothing) {
    const std::string text = failed_return_text(describe_loss(state, pair));
    return log_failed_return(state, pair, {Code::kRemote, text}, now);
  }
  pair.unused_since = now;
  if (!state.io.is_rail_missing(pair.index)) ++state.counters[pair.rail].losses;
}

// Where the connection has failed, its error says more.
void log_losses(RecoveryState& state, RecoveryTime now) {
  for (Pair& pair : state.pairs) {
    if (!pair.lost_at || pair.logged != RecoveryState::Logged::kNothing) continue;
    if (!pair.agreement.recovered() && now - *pair.lost_at < kLogAfter) continue;
    pair.logged = RecoveryState::Logged::kLoss;
    if (!state.link->failed() || state.is_any_usable()) {
      state.hooks.rails->lost(describe_loss(state, pair));
    }
  }
}

// Once until the pair is used again: it is tried again and again. Where the peer's port is down,
// its loss has been logged with that.
void log_failed_return(RecoveryState& state, Pair& pair, const Error& reason, RecoveryTime now) {
  const bool port_down = state.is_port_down(pair) ||
                         (pair.agreement.peer().cause.reason == wire::PairReason::kPortDown &&
                          pair.agreement.peer().step <= pair.agreement.step());
  if (!port_down && now - pair.unused_since >= kStaysLostAfter) {
    state.hooks.rails->stays_lost(state.io.port_text(pair.index), state.io.peer_text(pair.index),
                                  reason);
  }
  const auto failed = RecoveryState::Logged::kFailedReturn;
  if (std::exchange(pair.logged, failed) == failed) return;
  GDR_INFO(log::kNet, "%s is not usable again yet: %s", state.io.path_text(pair.index).c_str(),
           reason.text.c_str());
}

void log_return(RecoveryState& state, Pair& pair) {
  if (pair.logged == RecoveryState::Logged::kNothing) return;
  pair.logged = RecoveryState::Logged::kNothing;
  ++state.counters[pair.rail].returns;
  state.hooks.rails->returned(state.io.port_text(pair.index), state.io.peer_text(pair.index));
}

std::string Recovery::state_text() const {
  std::lock_guard lock(state_.mutex);
  if (state_.closed) return "";  // the rails may not exist any more
  std::string text;
  for (const Pair& pair : state_.pairs) {
    const bool is_usable = pair.agreement.usable();
    if (is_usable && !state_.is_port_down(pair)) continue;
    text += (text.empty() ? ", " : "; ") + state_.io.path_text(pair.index);
    text += is_usable ? ": its port is down, the HCA retries"
                      : " is lost (" + cause_text(describe_loss(state_, pair)) + "), " +
                            awaited_text(pair);
  }
  return text;
}

}  // namespace gdr::transport

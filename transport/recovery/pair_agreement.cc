#include "transport/recovery/pair_agreement.h"

#include <algorithm>
#include <cstring>

#include "drivers/verbs/wc_text.h"

namespace gdr::transport {
namespace {

// Pauses between the loss of a pair and its revival. A pair that is lost again soon waits twice as
// long, so that a port that goes up and down does not cost a recovery each time.
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{60};
// The sender's before the next return of a pair that has carried no data, although it had to: each
// such return costs the time of an HCA's retries.
constexpr std::chrono::seconds kLongestPauseInVain{1800};
// A pair that was usable for so long begins with the first pause again.
constexpr std::chrono::seconds kStableTime{60};

// How many epochs have ended when an end is at a step.
uint32_t ended_epochs(uint32_t step) { return (step + 1) / 2; }

bool is_newer(uint32_t serial, uint32_t than) { return static_cast<int32_t>(serial - than) > 0; }

Status contradiction(const wire::PairStatement& statement, const std::string& what) {
  return fail(Code::kInternal,
              "the peer's statement about queue pair " + std::to_string(statement.pair) +
                  " contradicts the protocol of recovery: step " + std::to_string(statement.step) +
                  ", seen " + std::to_string(statement.seen) + ", arrived " +
                  std::to_string(statement.arrived) + ", but " + what);
}

// Whether the status of a statement with that reason is an errno value.
bool states_errno(wire::PairReason reason) {
  return reason == wire::PairReason::kWithdrawn || reason == wire::PairReason::kRailMissing;
}

std::string lack_text(const PairCause& cause) {
  const std::string err = cause.sys_errno == 0 ? "" : ", errno " + std::to_string(cause.sys_errno);
  return " for lack of queue pairs, queues or memory that can be registered" + err;
}

}  // namespace

std::string to_string(const PairCause& cause) {
  switch (cause.reason) {
    case wire::PairReason::kNone:
      return "no failure";
    case wire::PairReason::kCompletion:
      return verbs::wc_status_name(cause.status);
    case wire::PairReason::kPost:
      return "the HCA refused a work request";
    case wire::PairReason::kPortDown:
      return cause.status == IBV_WC_SUCCESS
                 ? "the port is down"
                 : std::string("the port is down (") + verbs::wc_status_name(cause.status) + ")";
    case wire::PairReason::kDeviceLost:
      return "the HCA reported a fatal error or was removed";
    case wire::PairReason::kQueuePair:
      return "the HCA reported a fatal error of the queue pair";
    case wire::PairReason::kNotConnected:
      return "the queue pair could not be connected";
    case wire::PairReason::kProbe:
      return "the probe of " + std::to_string(wire::kProbeBytes) + " bytes failed with " +
             verbs::wc_status_name(cause.status);
    case wire::PairReason::kPeer:
      return "the other end lost it";
    case wire::PairReason::kWithdrawn:
      return "the rail was given up" + lack_text(cause);
    case wire::PairReason::kAddress:
      return "the address of the other end's port has changed";
    case wire::PairReason::kRailMissing:
      return "the rail that it is meant for is missing" + lack_text(cause);
  }
  return "unknown";
}

PairCause cause_of(const wire::PairStatement& statement) {
  if (states_errno(statement.reason)) {
    return {.reason = statement.reason, .sys_errno = statement.status};
  }
  const bool known = statement.status <= IBV_WC_TM_RNDV_INCOMPLETE;  // the last in verbs.h
  return {statement.reason,
          known ? static_cast<ibv_wc_status>(statement.status) : IBV_WC_GENERAL_ERR};
}

std::optional<wire::PairStatement> read_statement(const wire::PairStatement& entry) {
  constexpr size_t kWords = sizeof(wire::PairStatement) / sizeof(uint64_t);
  const auto* from = reinterpret_cast<const uint64_t*>(&entry);
  uint64_t words[kWords];
  for (size_t i = kWords; i-- > 0;) words[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
  wire::PairStatement statement;
  std::memcpy(&statement, words, sizeof(statement));
  return wire::is_known(statement) ? std::optional(statement) : std::nullopt;
}

void PairAgreement::on_failure(PairCause cause) {
  if (!is_down()) lose(cause);
}

void PairAgreement::on_known_cause(PairCause cause) {
  if (!lost_ && !is_down()) return lose(cause);
  due_ = due_ || !(cause_ == cause);
  cause_ = cause;
}

void PairAgreement::lose(PairCause cause) {
  if (lost_) return;
  lost_ = true;
  cause_ = cause;
}

void PairAgreement::on_stopped(Time now) {
  if (!lost_ || is_down()) return;
  stopped_ = true;
  go_down_if_possible(now);
}

void PairAgreement::on_counted(uint64_t arrived, Time now) {
  if (!stopped_ || counted_) return;
  counted_ = true;
  counted_arrivals_ = arrived;
  go_down_if_possible(now);
}

void PairAgreement::go_down_if_possible(Time now) {
  const bool counted = counted_ || end_ == PairEnd::kSender;
  if (is_down() || !lost_ || !stopped_ || !counted || peer_step_ < step_) return;
  lengthen_pause(now);
  paused_at_ = now;
  arrived_ = counted_arrivals_;
  ++step_;
  due_ = true;
  data_path_done_ = false;
}

void PairAgreement::lengthen_pause(Time now) {
  const bool stable = !is_down() && probed() && now - ready_since_ >= kStableTime;
  pause_ = stable || pause_ < kFirstPause ? kFirstPause : std::min(2 * pause_, kLongestPause);
}

void PairAgreement::on_taken_over(bool has_lost) {
  if (end_ == PairEnd::kReceiver || !recovered()) return;
  if (peer_arrived_ > 0) {
    returns_in_vain_ = 0;
  } else if (has_lost) {
    ++returns_in_vain_;
  }
}

void PairAgreement::on_connected(const wire::PortAddress& own, const wire::PortAddress& peer) {
  address_ = own;
  connected_to_ = peer;
}

void PairAgreement::on_revived() {
  if (!may_revive()) return;
  ++step_;
  due_ = true;
  lost_ = stopped_ = counted_ = revival_failed_ = peer_probed_ = false;
  counted_arrivals_ = 0;
  probe_ = Probe::kNone;
  lose_if_peer_has_moved();
}

// Both ends are ready, and this one is connected to a former address. Its next attempt takes the
// present one.
void PairAgreement::lose_if_peer_has_moved() {
  if (agreed_ready() && peer_address() != connected_to_) lose({wire::PairReason::kAddress});
}

void PairAgreement::on_revival_failed(Time now) {
  if (!may_revive()) return;
  if (!urgent_) lengthen_pause(now);
  on_revival_put_off(now);
}

void PairAgreement::on_revival_put_off(Time now) {
  if (!may_revive()) return;
  revival_failed_ = true;
  paused_at_ = now;
}

void PairAgreement::on_probe_completed(ibv_wc_status status, Time now) {
  if (probe_ != Probe::kPosted || lost_) return;
  if (status != IBV_WC_SUCCESS) return on_failure({wire::PairReason::kProbe, status});
  probe_ = Probe::kDone;
  ready_since_ = now;
}

Status PairAgreement::check(const wire::PairStatement& statement) const {
  const uint32_t step = statement.step;
  if (step < peer_step_ || statement.seen < peer_seen_) {
    return contradiction(statement, "it has stated step " + std::to_string(peer_step_) + ", seen " +
                                        std::to_string(peer_seen_) + " before");
  }
  if (step > step_ + 1 || statement.seen > step_) {
    return contradiction(statement, "this end is at step " + std::to_string(step_));
  }
  if (statement.seen + 1 < step) {
    return contradiction(statement, "it may not be so far before this end is");
  }
  if (end_ == PairEnd::kReceiver && statement.arrived != 0) {
    return contradiction(statement, "a sender counts nothing");
  }
  if (ended_epochs(step) == ended_epochs(peer_step_) && statement.arrived != peer_arrived_) {
    return contradiction(
        statement, "it has stated " + std::to_string(peer_arrived_) + " for the same epoch before");
  }
  return {};
}

Status PairAgreement::on_statement(const wire::PairStatement& statement, Time now) {
  if (!is_newer(statement.serial_first, peer_serial_)) return {};
  if (Status status = check(statement); !status) return status;
  take(statement);
  if (peer_step_ == step_ + 1 && !is_down()) lose({wire::PairReason::kPeer});
  lose_if_peer_has_moved();
  go_down_if_possible(now);
  return {};
}

void PairAgreement::take(const wire::PairStatement& statement) {
  if ((statement.flags & wire::kStatementAsks) != 0) due_ = true;
  if (statement.step > peer_step_) revival_failed_ = false;
  peer_serial_ = statement.serial_first;
  peer_step_ = statement.step;
  peer_seen_ = statement.seen;
  peer_arrived_ = statement.arrived;
  peer_cause_ = cause_of(statement);
  peer_address_ = statement.address;
}

wire::PairStatement PairAgreement::make_statement() {
  due_ = false;
  if (++serial_ == 0) ++serial_;  // 0: nothing was stated
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = serial_;
  statement.step = step_;
  statement.seen = peer_step_;
  statement.pair = pair_;
  statement.flags = unseen() ? wire::kStatementAsks : 0;
  statement.reason = cause_.reason;
  statement.arrived = arrived_;
  const int status = states_errno(cause_.reason) ? cause_.sys_errno : int{cause_.status};
  statement.status = static_cast<uint8_t>(status);
  statement.address = address_;
  return statement;
}

bool PairAgreement::may_revive() const { return recovered() && data_path_done_ && port_active_; }

// Where the other end is ready again, waiting would not spare a recovery, but perhaps data.
PairAgreement::Time PairAgreement::revive_at() const {
  std::chrono::seconds pause{0};
  if (!peer_waits()) pause = urgent_ ? kFirstPause : pause_;
  if (returns_in_vain_ == 0 || urgent_) return paused_at_ + pause;
  const auto in_vain = kFirstPause * (1 << std::min(returns_in_vain_ - 1, 16));
  return paused_at_ + std::max<std::chrono::seconds>(pause, std::min(in_vain, kLongestPauseInVain));
}

PairAction PairAgreement::next(Time now) const {
  if (lost_ && !stopped_) return PairAction::kStop;
  if (may_revive() && now >= revive_at()) return PairAction::kRevive;
  if (awaits_probe() && probe_ == Probe::kNone) return PairAction::kProbe;
  return PairAction::kNone;
}

PairAgreement::Time PairAgreement::deadline() const {
  return may_revive() ? revive_at() : Time::max();
}

}  // namespace gdr::transport

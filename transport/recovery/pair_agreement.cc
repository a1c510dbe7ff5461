#include "transport/recovery/pair_agreement.h"

#include <algorithm>
#include <cstring>

namespace gdr::transport {
namespace {

// Pauses between the loss of a pair and its revival. A pair that is lost again soon waits twice as
// long, so that a path that lets probes pass and no data, whose every return costs the time of an
// HCA's retries, or a port that goes up and down, does not cost a recovery each time.
constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{600};
// Between attempts after which no data was sent: those cost little.
constexpr std::chrono::seconds kLongestPauseUnused{60};
// A pair that was usable for so long begins with the first pause again: longer than the retries
// with NCCL_IB_TIMEOUT=23.
constexpr std::chrono::seconds kStableTime{300};

// How many epochs have ended when an end is at a step.
uint32_t ended_epochs(uint32_t step) { return (step + 1) / 2; }

bool is_newer(uint32_t serial, uint32_t than) { return static_cast<int32_t>(serial - than) > 0; }

// Checks a statement of the other end to an end that is at step `own`: no end goes back, nor so far
// before the other one has followed; a sender counts nothing, and a receiver once for each epoch.
Status check(const wire::PairStatement& statement, const PeerEnd& before, PairEnd end,
             uint32_t own) {
  const uint32_t step = statement.step;
  const bool goes_back = step < before.step || statement.seen < before.seen;
  const bool goes_ahead = step > own + 1 || statement.seen > own || statement.seen + 1 < step;
  const bool counts_again =
      ended_epochs(step) == ended_epochs(before.step) && statement.arrived != before.arrived;
  const bool sender_counts = end == PairEnd::kReceiver && statement.arrived != 0;
  if (!goes_back && !goes_ahead && !counts_again && !sender_counts) return {};
  const auto text = [](uint32_t at, uint32_t seen, uint64_t arrived) {
    return "step " + std::to_string(at) + ", seen " + std::to_string(seen) + ", arrived " +
           std::to_string(arrived);
  };
  return fail(Code::kInternal, "the peer's statement about queue pair " +
                                   std::to_string(statement.pair) +
                                   " contradicts the protocol of recovery: " +
                                   text(step, statement.seen, statement.arrived) + ", after " +
                                   text(before.step, before.seen, before.arrived) +
                                   ", to an end at step " + std::to_string(own));
}

// Whether the status of a statement with that reason is an errno value.
bool states_errno(wire::PairReason reason) {
  return reason == wire::PairReason::kWithdrawn || reason == wire::PairReason::kRailMissing;
}

}  // namespace

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

void PairReturn::on_down(Time now, bool was_usable) {
  if (was_usable && now - ready_since_ >= kStableTime) pause_ = {};
  lengthen_pause(was_usable ? kLongestPause : kLongestPauseUnused);
  paused_at_ = now;
  data_path_done_ = false;
}

void PairReturn::lengthen_pause(std::chrono::seconds longest) {
  pause_ = std::max({kFirstPause, pause_, std::min(2 * pause_, longest)});
}

void PairReturn::on_failed(Time now) {
  if (!urgent_) lengthen_pause(kLongestPauseUnused);
  failed_ = true;
  paused_at_ = now;
}

// Where the other end is ready again, waiting would not spare a recovery, but perhaps data.
PairReturn::Time PairReturn::at(bool peer_waits) const {
  if (peer_waits) return paused_at_;
  return paused_at_ + (urgent_ ? kFirstPause : pause_);
}

void PairAgreement::on_failure(PairCause cause, bool known) {
  if (lost() && !known) return;
  if (!lost()) {
    if (usable()) peer_.cause = {};
    phase_ = Phase::kLost;
  } else if (!(cause_ == cause)) {
    due_ = true;
  }
  cause_ = cause;
}

void PairAgreement::on_stopped(Time now) {
  if (phase_ != Phase::kLost) return;
  phase_ = Phase::kStopped;
  go_down_if_possible(now);
}

void PairAgreement::on_counted(uint64_t arrived, Time now) {
  if (phase_ != Phase::kStopped) return;
  phase_ = Phase::kCounted;
  counted_arrivals_ = arrived;
  go_down_if_possible(now);
}

void PairAgreement::go_down_if_possible(Time now) {
  const Phase last = end_ == PairEnd::kSender ? Phase::kStopped : Phase::kCounted;
  if (phase_ != last || peer_.step < step()) return;
  return_.on_down(now, return_.probed());
  arrived_ = counted_arrivals_;
  phase_ = Phase::kDown;
  due_ = true;
}

void PairAgreement::on_connected(const wire::PortAddress& own, const wire::PortAddress& peer) {
  address_ = own;
  connected_to_ = peer;
}

void PairAgreement::on_revived() {
  if (!may_revive()) return;
  phase_ = Phase::kReady;
  ++epoch_;
  due_ = true;
  counted_arrivals_ = 0;
  return_.failed_ = return_.peer_probed_ = false;
  return_.probe_ = PairReturn::Probe::kNone;
  lose_former_address();
}

void PairAgreement::lose_former_address() {
  if (carries_statements() && peer_address() != connected_to_) {
    on_failure({wire::PairReason::kAddress});
  }
}

void PairAgreement::on_probe_completed(ibv_wc_status status, Time now) {
  if (return_.probe_ != PairReturn::Probe::kPosted || lost()) return;
  if (status != IBV_WC_SUCCESS) return on_failure({wire::PairReason::kProbe, status});
  return_.probe_ = PairReturn::Probe::kDone;
  return_.ready_since_ = now;
}

Status PairAgreement::on_statement(const wire::PairStatement& statement, Time now) {
  if (!is_newer(statement.serial_first, peer_.serial)) return {};
  if (Status status = check(statement, peer_, end_, step()); !status) return status;
  if (statement.asks != 0) due_ = true;
  if (statement.step > peer_.step) return_.failed_ = false;
  peer_ = {.serial = statement.serial_first,
           .step = statement.step,
           .seen = statement.seen,
           .arrived = statement.arrived,
           .cause = cause_of(statement),
           .address = statement.address};
  if (peer_.step == step() + 1) on_failure({wire::PairReason::kPeer});
  lose_former_address();
  go_down_if_possible(now);
  return {};
}

wire::PairStatement PairAgreement::make_statement() {
  due_ = false;
  if (++serial_ == 0) ++serial_;  // 0: nothing was stated
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = serial_;
  statement.step = step();
  statement.seen = peer_.step;
  statement.pair = pair_;
  statement.asks = unseen() ? 1 : 0;
  statement.arrived = arrived_;
  const PairCause cause = usable() ? PairCause{} : cause_;
  statement.reason = cause.reason;
  const int status = states_errno(cause.reason) ? cause.sys_errno : int{cause.status};
  statement.status = static_cast<uint8_t>(status);
  statement.address = address_;
  return statement;
}

PairAction PairAgreement::next(Time now) const {
  if (phase_ == Phase::kLost) return PairAction::kStop;
  if (now >= deadline() && may_revive()) return PairAction::kRevive;
  if (awaits_probe() && return_.probe_ == PairReturn::Probe::kNone) return PairAction::kProbe;
  return PairAction::kNone;
}

PairAgreement::Time PairAgreement::deadline() const {
  return may_revive() ? return_.at(peer_waits()) : Time::max();
}

}  // namespace gdr::transport

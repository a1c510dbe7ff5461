#include "transport/pairs/state_changes.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

#include "base/log.h"

namespace gdr::transport {
namespace {

constexpr const char* kStateNames[] = {"RESET", "INIT", "RTR", "RTS"};  // by ibv_qp_state

// "mlx5_0:1", the port of the QP.
std::string port_text(const StateChange& change) {
  return change.hca->name() + ":" + std::to_string(change.port);
}

std::string text_of(const StateChange& change) {
  return "moving QP " + hex(change.qp->qp_num) + " of " + port_text(change) + " to " +
         kStateNames[change.attr.qp_state];
}

std::string resolved_address(const StateChange& change) {
  Gid gid;
  std::copy(std::begin(change.attr.ah_attr.grh.dgid.raw),
            std::end(change.attr.ah_attr.grh.dgid.raw), gid.begin());
  return to_string(gid);
}

// What a failure of the change usually means; "" where it has no usual cause.
std::string hint_of(const StateChange& change, int err) {
  if (err == ENOMEM) return "the HCA or its driver has no room for another connected QP";
  if (change.attr.qp_state == IBV_QPS_INIT) {
    return "NCCL_IB_PKEY is an index into the port's P_Key table, here " +
           std::to_string(change.attr.pkey_index);
  }
  return change.resolves ? "on RoCE the usual cause is a GID that has no route to the peer" : "";
}

// A QP without which the connection can do is not waited for as long as the last one.
constexpr int kOptionalRetries = 3;

Error failure(const StateChange& change, int err, int attempts) {
  std::string text = text_of(change) + " failed";
  if (attempts > 1) text += " " + std::to_string(attempts) + " times";
  Error failed = fail_errno(Code::kSystem, std::move(text), err).value();
  if (err == ETIMEDOUT && change.resolves) {
    failed.text += ": the peer's address " + resolved_address(change) +
                   " could not be resolved by ARP or neighbour discovery. Fix: make sure that the "
                   "network interface of " +
                   port_text(change) +
                   " reaches that address (ping), that its switch ports are up and in one VLAN, "
                   "and that a router answers for other subnets; raise NCCL_IB_MQP_RETRY_CNT or "
                   "NCCL_IB_MQP_RETRY_SLEEP_MSEC where that only takes longer";
  } else if (const std::string hint = hint_of(change, err); !hint.empty()) {
    failed.text += "; " + hint;
  }
  return failed;
}

}  // namespace

int modify(const StateChange& change) {
  ibv_qp_attr attr = change.attr;
  // Some drivers return the negative value, for which NCCL is prepared (ibvwrap.cc, IBV_ERR_EQ).
  return std::abs(change.hca->api().modify_qp(change.qp, &attr, change.mask));
}

Status make_now(const StateChange& change) {
  if (change.before) {
    if (Status status = change.before(); !status) return status;
  }
  const int err = modify(change);
  if (err == 0) return {};
  return fail_errno(Code::kSystem, text_of(change) + " failed", err);
}

void StateChanges::add(StateChange change) {
  auto sequence = std::ranges::find(sequences_, change.qp, &Sequence::qp);
  if (sequence == sequences_.end()) {
    sequences_.push_back({.qp = change.qp, .changes = {}});
    sequence = sequences_.end() - 1;
  }
  sequence->changes.push_back(std::move(change));
}

Result<bool> StateChanges::step(const ConnectionOptions& options) {
  Result<bool> others = step_all(/*standby=*/false, options);
  if (!others || !*others) return others;
  Result<bool> all = step_all(/*standby=*/true, options);
  if (all && *all) sequences_.clear();
  return all;
}

Result<bool> StateChanges::step_all(bool standby, const ConnectionOptions& options) {
  bool all = true;
  for (Sequence& sequence : sequences_) {
    Result<bool> made = step(sequence, standby, options);
    if (!made) return made;
    all = all && *made;
  }
  return all;
}

Result<bool> StateChanges::step(Sequence& sequence, bool standby,
                                const ConnectionOptions& options) {
  while (sequence.next < sequence.changes.size()) {
    const StateChange& change = sequence.changes[sequence.next];
    if (change.standby && !standby) break;
    const bool optional = change.optional;
    const bool connects = change.attr.qp_state == IBV_QPS_RTS;
    Result<bool> made = attempt(sequence, options);
    if (!made && optional) {
      failed_.push_back({sequence.qp, std::move(made.error())});
      sequence.next = sequence.changes.size();
      sequence.attempts = 0;
      return true;
    }
    if (!made || !*made) return made;
    if (connects && optional) optional_connected_ = true;
  }
  return true;
}

int StateChanges::most_retries(const StateChange& change, const ConnectionOptions& options) const {
  if (!change.optional || !optional_connected_) return options.modify_retries;
  return change.standby ? 0 : std::min(kOptionalRetries, options.modify_retries);
}

Result<bool> StateChanges::attempt(Sequence& sequence, const ConnectionOptions& options) {
  StateChange& change = sequence.changes[sequence.next];
  int& attempts = sequence.attempts;
  const Clock::time_point now = options.now();
  if (attempts > 0 && now < sequence.retry_at) return false;
  if (attempts == 0 && change.before) {
    if (Status status = change.before(); !status) return forward_error(status);
  }
  const int err = modify(change);
  ++attempts;
  if (err != 0) {
    const int most = most_retries(change, options);
    const bool passes = options.modify_retry_all || err == ETIMEDOUT;
    if (!passes || attempts > most) {
      return tl::unexpected<Error>(failure(change, err, attempts));
    }
    if (attempts == 1) {
      GDR_INFO(log::kNet, "%s failed with errno %d; trying up to %d more times",
               text_of(change).c_str(), err, most);
    }
    sequence.retry_at = options.now() + attempts * options.modify_retry_pause;
    return false;
  }
  if (attempts > 1) {
    GDR_INFO(log::kNet, "%s succeeded at attempt %d", text_of(change).c_str(), attempts);
  }
  attempts = 0;
  ++sequence.next;
  return true;
}

}  // namespace gdr::transport

#include "transport/data/state_changes.h"

#include <cerrno>
#include <cstdlib>

#include "base/log.h"

namespace gdr::transport {
namespace {

const char* state_name(ibv_qp_state state) {
  switch (state) {
    case IBV_QPS_INIT:
      return "INIT";
    case IBV_QPS_RTR:
      return "RTR";
    case IBV_QPS_RTS:
      return "RTS";
    default:
      return "another state";
  }
}

std::string text_of(const StateChange& change) {
  return "moving QP " + hex(change.qp->qp_num) + " of " + change.port + " to " +
         state_name(change.attr.qp_state);
}

bool is_worth_retrying(int err, const ConnectionOptions& options) {
  return options.modify_retry_all || err == ETIMEDOUT;
}

}  // namespace

Result<bool> StateChanges::step(const ConnectionOptions& options) {
  while (!pending_.empty()) {
    StateChange& change = pending_.front();
    const Clock::time_point now = options.now();
    if (attempts_ > 0 && now < retry_at_) return false;
    if (attempts_ == 0) began_ = now;
    if (attempts_ == 0 && change.before) {
      if (Status status = change.before(); !status) return forward_error(status);
    }
    ibv_qp_attr attr = change.attr;
    // Some drivers return the negative value, for which NCCL is prepared (ibvwrap.cc, IBV_ERR_EQ).
    const int err = std::abs(change.api->modify_qp(change.qp, &attr, change.mask));
    ++attempts_;
    if (err != 0) {
      if (!is_worth_retrying(err, options) || attempts_ > options.modify_retries) {
        Status failed = failure(change, err, options);
        return forward_error(failed);
      }
      if (attempts_ == 1) log_first_retry(change, err, options);
      retry_at_ = options.now() + attempts_ * options.modify_retry_pause;
      return false;
    }
    if (attempts_ > 1) {
      GDR_INFO(log::kNet, "%s succeeded at attempt %d", text_of(change).c_str(), attempts_);
    }
    attempts_ = 0;
    pending_.pop_front();
  }
  return true;
}

Status StateChanges::failure(const StateChange& change, int err,
                             const ConnectionOptions& options) const {
  std::string text = text_of(change) + " failed";
  if (attempts_ > 1) {
    const auto spent =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.now() - began_);
    text += " " + std::to_string(attempts_) + " times in " + std::to_string(spent.count()) + " ms";
  }
  auto failed = fail_errno(Code::kSystem, std::move(text), err);
  std::string& why = failed.value().text;
  if (err == ETIMEDOUT && !change.resolves.empty()) {
    why += ": the peer's address " + change.resolves +
           " could not be resolved by ARP or neighbour discovery. Fix: make sure that the network "
           "interface of " +
           change.port +
           " reaches that address (ping), that its switch ports are up and in one VLAN, and that "
           "a router answers for other subnets; raise NCCL_IB_MQP_RETRY_CNT or "
           "NCCL_IB_MQP_RETRY_SLEEP_MSEC where that only takes longer";
  } else if (!change.hint.empty()) {
    why += "; " + change.hint;
  }
  return failed;
}

void StateChanges::log_first_retry(const StateChange& change, int err,
                                   const ConnectionOptions& options) const {
  const std::string why =
      err == ETIMEDOUT && !change.resolves.empty()
          ? ", as the peer's address " + change.resolves + " is not resolved yet"
          : "";
  GDR_INFO(log::kNet, "%s failed with errno %d%s; trying up to %d more times",
           text_of(change).c_str(), err, why.c_str(), options.modify_retries);
}

}  // namespace gdr::transport

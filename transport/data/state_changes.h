// The changes of state that bring queue pairs from RESET to RTS, one after the other and without
// waiting between the attempts of one.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/data/connection_options.h"

namespace gdr::transport {

// One call of ibv_modify_qp.
struct StateChange {
  const verbs::Api* api = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_attr attr{};
  int mask = 0;               // ibv_qp_attr_mask
  std::string port = {};      // of the QP, for texts: "mlx5_0:1"
  std::string hint = {};      // what a failure usually means; may be empty
  std::string resolves = {};  // the address that the kernel has to resolve for it; "": none
  // Called once, before the first attempt; if it fails, so does the change. May be empty.
  std::function<Status()> before = nullptr;
};

// Makes changes in the order in which they were added.
//
// On RoCE the kernel resolves the peer's address during the change to RTR, and ibv_modify_qp
// returns ETIMEDOUT when ARP or neighbour discovery takes too long, as it does when many ranks
// start at once. NCCL's net_ib then sleeps and tries again (src/misc/ibvwrap.cc,
// wrap_ibv_modify_qp); here the pause passes between the calls of step().
class StateChanges {
 public:
  void add(StateChange change) { pending_.push_back(std::move(change)); }

  // Makes what can be made without waiting. Returns whether all changes are made; false: call
  // again. An error is final; it names the QP, its port, the state and the number of attempts.
  Result<bool> step(const ConnectionOptions& options);

 private:
  Status failure(const StateChange& change, int err, const ConnectionOptions& options) const;
  void log_first_retry(const StateChange& change, int err, const ConnectionOptions& options) const;

  std::deque<StateChange> pending_;
  int attempts_ = 0;  // of pending_.front()
  Clock::time_point began_{};
  Clock::time_point retry_at_{};
};

}  // namespace gdr::transport

// The changes of state that bring queue pairs from RESET to RTS, without waiting between the
// attempts of one.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "transport/device/hca.h"
#include "transport/pairs/connection_options.h"

namespace gdr::transport {

// One call of ibv_modify_qp. It has no texts of its own: several are made for each connection, and
// hardly any fails.
struct StateChange {
  const HcaContext* hca = nullptr;  // of the QP, which keeps it
  int port = 0;                     // of the HCA
  ibv_qp* qp = nullptr;
  ibv_qp_attr attr{};
  int mask = 0;           // ibv_qp_attr_mask
  bool resolves = false;  // the kernel has to resolve the address to which `attr` leads (RoCE)
  // Called once, before the first attempt; if it fails, so does the change. May be empty.
  std::function<Status()> before = nullptr;
  // The connection can do without this QP. If the change fails, the others of the QP are dropped
  // and those of other QPs go on; and it fails early once another such QP is connected.
  bool optional = false;
  // Optional, and of a pair that stands by: it is made after the changes of all others, and tried
  // only once where one of those is connected, so that nothing waits for it.
  bool standby = false;
};

// Makes the change in one attempt. Returns an errno value; 0 is success.
int modify(const StateChange& change);
// The same with what comes before it. The error text names the QP, its port and the state.
Status make_now(const StateChange& change);

// An optional QP whose change of state has failed.
struct FailedQueuePair {
  ibv_qp* qp;
  Error error;
};

// Makes the changes of each QP in the order in which they were added; those of one QP do not wait
// for another's.
//
// On RoCE the kernel resolves the peer's address during the change to RTR, and ibv_modify_qp
// returns ETIMEDOUT when ARP or neighbour discovery takes too long, as it does when many ranks
// start at once. NCCL's net_ib then sleeps and tries again (src/misc/ibvwrap.cc,
// wrap_ibv_modify_qp); here the pause passes between the calls of step().
class StateChanges {
 public:
  void add(StateChange change);
  // Forgets the changes of a QP, which is about to be destroyed.
  void drop(const ibv_qp* qp) {
    std::erase_if(sequences_, [qp](auto& of) { return of.qp == qp; });
  }

  // Makes what can be made without waiting. Returns whether all changes are made; false: call
  // again. An error is final; it names the QP, its port, the state and the number of attempts.
  Result<bool> step(const ConnectionOptions& options);

  // Returns the optional QPs that have failed since the last call.
  std::vector<FailedQueuePair> take_failed() { return std::exchange(failed_, {}); }

 private:
  // The changes of one QP: those before `next` are made.
  struct Sequence {
    ibv_qp* qp;
    std::vector<StateChange> changes;
    size_t next = 0;
    int attempts = 0;  // of changes[next]
    Clock::time_point retry_at{};
  };

  Result<bool> step_all(bool standby, const ConnectionOptions& options);
  Result<bool> step(Sequence& sequence, bool standby, const ConnectionOptions& options);
  // Makes or tries the next change. Returns whether to go on with the one after it.
  Result<bool> attempt(Sequence& sequence, const ConnectionOptions& options);
  int most_retries(const StateChange& change, const ConnectionOptions& options) const;

  std::vector<Sequence> sequences_;  // of QPs whose changes are not all made
  std::vector<FailedQueuePair> failed_;
  bool optional_connected_ = false;  // the changes of some optional QP are all made
};

}  // namespace gdr::transport

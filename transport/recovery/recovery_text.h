// The log and error texts about rails that are lost and return.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/recovery/pair_agreement.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// "RETRY_EXC_ERR", "the port is down", "the port is down (RETRY_EXC_ERR)".
std::string to_string(const PairCause& cause);

// What the loss of a rail means to a connection, by increasing severity.
enum class LossEffect : uint8_t {
  kExplained,  // what a warning of the end that gave the rail up explains already
  kGoesOn,     // over other rails
  kWaits,      // no rail is usable: it waits for one to return
};

// A connection has lost a rail, for the log and for errors.
struct RailLoss {
  std::string host;  // of this end: "nodeA"
  std::string port;  // likewise: "mlx5_0:1"
  std::string peer;  // "nodeB mlx5_3:1"
  PairCause cause;   // at this end
  PairCause peer_cause;
  LossEffect effect = LossEffect::kGoesOn;
  bool stands_by = false;              // it carried nothing while others were usable
  bool may_return = true;              // to use by this connection
  std::vector<std::string> usable;     // ports of this end that are left: "mlx5_1:1 (standby)"
  std::chrono::milliseconds waits{0};  // kWaits: at most so long
  const void* connection = nullptr;    // differs between connections
};

// Losses of the same port of this end that are one event: of one cable, one HCA or one switch.
class RailLosses {
 public:
  void add(const RailLoss& loss);

  // Whether the rail carried nothing, as others were usable.
  bool stood_by() const { return connections_.empty() && effect_ == LossEffect::kGoesOn; }
  // What rails have in common that are lost for one reason.
  std::string common_text() const { return causes_text(); }
  // "mlx5_0:1 <-> nodeB mlx5_3:1 and 11 other ports".
  std::string rails_text() const;

  // The text of all for the log, which begins with rails_text(). left_out: see Episodes.
  // Example: "mlx5_0:1 <-> nodeB mlx5_3:1 and 11 other ports is lost: the port is down; 8
  // connections go on over mlx5_1:1 (standby). Likely cause: ... . It is used again when it
  // returns. Fix: look at ...".
  std::string text(int left_out = 0) const;

 private:
  struct Cause {
    PairCause cause;
    std::string peer;  // the host that found it first; "": this end did
  };
  using Connections = std::set<const void*>;

  void add_cause(const RailLoss& loss);
  std::string causes_text() const;
  std::string effect_text() const;
  std::string going_on_text() const;

  std::string port_;
  std::vector<std::string> peers_;
  std::vector<Cause> causes_;  // the most likely to explain the others first
  LossEffect effect_ = LossEffect::kExplained;
  Connections connections_;  // that used the rail
  Connections stood_by_;     // whose standby rail it was
  std::vector<std::string> usable_;
  bool may_return_ = false;
  std::chrono::milliseconds waits_{0};
};

// Why a pair that was connected again is not used, with the fix where it is known: "the probe of
// 4096 bytes failed with RETRY_EXC_ERR. Fix: compare the MTU ...".
// peers: where the other end has lost it, its cause.
std::string failed_return_text(const PairCause& cause, const PairCause& peers);

// "nodeB mlx5_3:1 and 11 other ports".
std::string ports_text(const std::vector<std::string>& ports);

// Why a connection fails whose last pair is lost: the cause of each path, and the likely cause of
// that which explains most. It names the ends, since the peer logs it, too. waited: for one to
// return; 0 where none can.
std::string no_pair_is_left_text(const std::vector<RailLoss>& losses,
                                 std::chrono::steady_clock::duration waited);

// Why a connection fails of which some work fails over every path (fails_over_every_path()). what:
// "a chunk". last: the pair that was lost with it at last.
std::string work_fails_text(const std::string& what, const FailedWork& work, const RailLoss& last);

}  // namespace gdr::transport

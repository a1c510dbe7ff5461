// The log and error texts about rails that are lost and return.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/recovery/pair_agreement.h"
#include "transport/recovery/recovery_rules.h"

namespace gdr::transport {

// "RETRY_EXC_ERR", "the port is down", "the port is down (RETRY_EXC_ERR)".
std::string to_string(const PairCause& cause);

// What the loss of a rail means to a connection, by increasing severity.
enum class LossEffect : uint8_t {
  kExplained,  // what a warning of the end that gave the rail up explains already
  kStoodBy,    // the rail carried nothing while others were usable
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
  bool may_return = true;              // to use by this connection
  std::string usable;                  // ports of this end that are left: "mlx5_1:1 + mlx5_2:1"
  std::chrono::milliseconds waits{0};  // kWaits: at most so long
};

// What RailLoss::cause and peer_cause come to: "the port is down", "nodeB reports: the port is
// down".
std::string cause_text(const RailLoss& loss);

// The text of a loss for the log. left_out: see Episodes. Example: "mlx5_0:1 <-> nodeB mlx5_3:1 is
// lost: the port is down; connections go on over mlx5_1:1 (standby). It is used again when it
// returns. Likely cause: ... . Fix: look at ...".
std::string lost_rail_text(const RailLoss& loss, int left_out = 0);

// Why a pair that was connected again is not used: "the probe of 4096 bytes failed with
// RETRY_EXC_ERR. Likely cause: ... . Fix: compare the MTU ...".
std::string failed_return_text(const RailLoss& loss);

// Why a connection fails whose last pair is lost: the cause of each path, and the likely cause of
// that which explains most. It names the ends, since the peer logs it, too. waited: for one to
// return; 0 where none can.
std::string no_pair_is_left_text(const std::vector<RailLoss>& losses,
                                 std::chrono::steady_clock::duration waited);

// Why a connection fails of which some work fails over every path (fails_over_every_path()). what:
// "a chunk". last: the pair that was lost with it at last.
std::string work_fails_text(const std::string& what, const FailedWork& work, const RailLoss& last);

}  // namespace gdr::transport

// `nccl-gdr doctor --burn-in`: measures each rail, with host memory and with the memory of each GPU
// that uses it, and judges the bandwidth by the class of the path. perftest measures, which shows
// what the port can do, or `nccl-gdr perf sendrecv`, which shows what NCCL gets from the plugin;
// each measurement has processes of its own (burn_in_choice.h).
//
// The peer is "local", for which each rail of this machine sends to another one, over the cables of
// both; "loopback", for which a port sends to itself (that loads memory, PCIe and HCA, but not the
// cable); or ADDRESS[:PORT], where the machine that has the address listens and the other one
// connects. The same command is started on both, which need no other connection (burn_in_link.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/burn_in_cases.h"
#include "tools/doctor/report.h"

namespace gdr::tools::doctor {

// How long one machine waits for the other one to begin.
inline constexpr int kBurnInPatienceSeconds = 60;

// How long the bandwidth of a path is measured, about, and by nccl-gdr perf its latency. By time
// and not by number of messages, so that a slow path takes no longer than a fast one.
inline constexpr int kBurnInSeconds = 2;

struct BurnInMeasurement {
  double gbits = 0;       // of 4 MiB messages
  double latency_us = 0;  // of 8 bytes, half a round trip; 0: not measured
  std::string by;         // what measured: "ib_write_bw 6.06", "nccl-gdr perf"
  // Why not even a small message got from one rail of this machine to the other one; "" where it
  // did. Nothing else is known then.
  std::string unreached = {};
};

struct BurnInPeer {
  bool is_local = true;      // "local" or "loopback"
  bool is_loopback = false;  // each port sends to itself
  std::string address;
  int port = 0;  // where the machines meet; the measurements take the next one
  int rank = 0;  // 0: this machine has the address and listens
};

// Resolves "local", "loopback", ADDRESS or ADDRESS:PORT; fails with kInvalidArgument.
Result<BurnInPeer> parse_burn_in_peer(const std::string& text);

// What is measured with the peer.
std::vector<BurnInCase> burn_in_cases(const Host& host, const BurnInPeer& peer,
                                      const BurnInShares& shares);

// kOk or kFailure; kUnknown where the rate of the port is unknown.
Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured);

// Fails with kRemote where data was lost or wrong, with kInvalidUsage where the other machine does
// not answer, and with another code where this one cannot measure.
using MeasureBurnIn = std::function<Result<BurnInMeasurement>(const BurnInCase&)>;

// A report of one check, "burn-in". What could not be measured is kUnknown, but for kRemote, which
// is kFailure, as is a rail that is down; nothing is measured after kInvalidUsage. Two rails that
// do not reach each other are kUnknown, too, as a fabric may keep rails apart, but kFailure where
// other pairs show that it does not (burn_in_pairs.h). The sender is then measured by itself.
Report burn_in(const Host& host, const std::vector<BurnInCase>& cases,
               const MeasureBurnIn& measure);

}  // namespace gdr::tools::doctor

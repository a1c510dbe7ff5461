// `nccl-gdr doctor --burn-in`: measures each rail, with host memory and with the memory of each GPU
// that uses it, and judges the bandwidth by the class of the path. The measurements are those of
// `nccl-gdr perf sendrecv`, each in a process of its own, so that the data takes the path of
// NCCL's.
//
// The peer is "local", for which a port sends to itself (that loads memory, PCIe and HCA, but not
// the cable), or ADDRESS[:PORT], where the machine that has the address listens and the other one
// connects. The same command is started on both, which need no other connection.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/doctor/report.h"

namespace gdr::topology {
struct RailDecision;
}

namespace gdr::tools::doctor {

// How long one machine waits for the other one.
inline constexpr int kBurnInPatienceSeconds = 60;

struct BurnInCase {
  std::string subject;        // "rail 0 mlx5_0:1 GPU3 (PIX)"
  std::string hca;            // "mlx5_0"
  int device = 0;             // the plugin's number for the rail
  std::optional<size_t> gpu;  // whose memory; nothing: that of the host
  std::string path;           // of the memory: "PIX"; "HOST" for memory of the host
  double port_gbits = 0;      // the rate of the port; 0: unknown
  double share = 0;           // of the rate, that a good path reaches
};

struct BurnInMeasurement {
  double gbits = 0;       // of 4 MiB messages
  double latency_us = 0;  // of 8 bytes, half a round trip
};

// The least share of the port's rate by the path's class.
using BurnInShares = std::map<std::string, double>;

// HOST and C2C, P2C, PIX, PXB 0.9, PHB 0.8, SYS 0.3: less than what is usual there (95-98 %, 85-92
// % and 30-50 % of the rate), so that a path below it has a fault.
const BurnInShares& default_burn_in_shares();

// Reads "PIX=95,PHB=70" (in percent) on top of the default. Fails with kInvalidArgument for another
// class, or a number that is not from 1 to 100.
Result<BurnInShares> parse_burn_in_shares(const std::string& text);

// The measurements of a machine: of each usable rail, host memory, then the GPUs whose own rail it
// is.
std::vector<BurnInCase> burn_in_cases(const topology::RailDecision& decision,
                                      const BurnInShares& shares);

struct BurnInPeer {
  bool is_local = true;
  std::string address;
  int port = 0;  // of the first measurement; each one after it takes the next
  int rank = 0;  // 0: this machine has the address, listens and judges
};

// Resolves "local", ADDRESS or ADDRESS:PORT; fails with kInvalidArgument.
Result<BurnInPeer> parse_burn_in_peer(const std::string& text);

// The arguments of nccl-gdr for a measurement, `number` of all from 0, that writes JSON to a file.
std::vector<std::string> burn_in_arguments(const BurnInCase& one, const BurnInPeer& peer,
                                           size_t number, const std::string& json_file);

// Reads that JSON. Fails where it is not of the case's HCA.
Result<BurnInMeasurement> parse_burn_in(const BurnInCase& one, const std::string& json);

// kOk or kFailure; kUnknown where the rate of the port is unknown.
Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured);

using MeasureBurnIn = std::function<Result<BurnInMeasurement>(const BurnInCase&, size_t number)>;

// Starts the measurement by this program. Fails with kRemote where data was lost or wrong, with
// kInvalidUsage where the other machine does not answer, and with another code where this one
// cannot measure.
Result<BurnInMeasurement> measure_burn_in(const BurnInCase& one, const BurnInPeer& peer,
                                          size_t number);

// A report of one check, "burn-in". What could not be measured is kUnknown, but for kRemote, which
// is kFailure; nothing is measured after kInvalidUsage. Where `judges` is false, the other machine
// has the results.
Report burn_in(const Host& host, const BurnInShares& shares, bool judges,
               const MeasureBurnIn& measure);

}  // namespace gdr::tools::doctor

// `nccl-gdr doctor --burn-in`: measures each rail, with host memory and with the memory of each GPU
// that uses it, and judges the bandwidth by the class of the path. perftest measures, which shows
// what the port can do, or `nccl-gdr perf sendrecv`, which shows what NCCL gets from the plugin;
// each measurement has processes of its own (burn_in_choice.h).
//
// The peer is "local", for which a port sends to itself (that loads memory, PCIe and HCA, but not
// the cable), or ADDRESS[:PORT], where the machine that has the address listens and the other one
// connects. The same command is started on both, which need no other connection (burn_in_link.h).
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

struct GpuFacts;

// How long one machine waits for the other one to begin.
inline constexpr int kBurnInPatienceSeconds = 60;

struct BurnInCase {
  std::string subject;                  // "rail 0 mlx5_0:1 GPU3 (PIX)"
  std::string hca;                      // "mlx5_0"
  int port = 1;                         // of the HCA
  int device = 0;                       // the plugin's number for the rail
  std::optional<size_t> gpu;            // whose memory, by the topology; nothing: that of the host
  std::string gpu_address;              // on PCI: "0000:1a:00.0"
  std::optional<int> cuda_number = {};  // of the GPU in CUDA; nothing: CUDA does not show it
  std::string path;                     // of the memory: "PIX"; "HOST" for memory of the host
  double port_gbits = 0;                // the rate of the port; 0: unknown
  double share = 0;                     // of the rate, that a good path reaches
  std::vector<int> cpus;                // of the HCA's NUMA node; empty: unknown
};

struct BurnInMeasurement {
  double gbits = 0;       // of 4 MiB messages
  double latency_us = 0;  // of 8 bytes, half a round trip; 0: not measured
  std::string by;         // what measured: "ib_write_bw 6.06", "nccl-gdr perf"
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
                                      const BurnInShares& shares, const GpuFacts& gpus);

struct BurnInPeer {
  bool is_local = true;
  std::string address;
  int port = 0;  // where the machines meet; the measurements take the next one
  int rank = 0;  // 0: this machine has the address and listens
};

// Resolves "local", ADDRESS or ADDRESS:PORT; fails with kInvalidArgument.
Result<BurnInPeer> parse_burn_in_peer(const std::string& text);

// kOk or kFailure; kUnknown where the rate of the port is unknown.
Observation judge_burn_in(const BurnInCase& one, const BurnInMeasurement& measured);

// Fails with kRemote where data was lost or wrong, with kInvalidUsage where the other machine does
// not answer, and with another code where this one cannot measure.
using MeasureBurnIn = std::function<Result<BurnInMeasurement>(const BurnInCase&)>;

// A report of one check, "burn-in". What could not be measured is kUnknown, but for kRemote, which
// is kFailure; nothing is measured after kInvalidUsage.
Report burn_in(const Host& host, const std::vector<BurnInCase>& cases,
               const MeasureBurnIn& measure);

}  // namespace gdr::tools::doctor

// What --burn-in measures: which rail sends to which, from which memory to which, and the share of
// the ports' rate that each path has to reach.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gdr::topology {
struct RailDecision;
}

namespace gdr::tools::doctor {

struct Host;

// A rail of this machine and the memory that its data is in.
struct BurnInEnd {
  std::string rail;                     // "rail 0 mlx5_0:1"
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
  std::string fabric = {};  // "InfiniBand, subnet fe80000000000000", "Ethernet"; "": unknown
};

struct BurnInCase {
  // "rail 0 mlx5_0:1 GPU3 (PIX)", "rail 0 mlx5_0:1 to rail 1 mlx5_1:1, host memory"
  std::string subject;
  BurnInEnd end;  // sends, and receives where nobody else does
  // Another rail of this machine, to which `end` sends. Nothing: `end` itself, or the same rail of
  // the other machine.
  std::optional<BurnInEnd> receiver = {};
  std::string note = {};  // what a reader of the result has to know: "without the cable, ..."
};

bool uses_gpu(const BurnInCase& one);

// The least share of the port's rate by the path's class.
using BurnInShares = std::map<std::string, double>;

// HOST and C2C, P2C, PIX, PXB 0.9, PHB 0.8, SYS 0.3: less than what is usual there (95-98 %, 85-92
// % and 30-50 % of the rate), so that a path below it has a fault.
const BurnInShares& default_burn_in_shares();

// Reads "PIX=95,PHB=70" (in percent) on top of the default. Fails with kInvalidArgument for another
// class, or a number that is not from 1 to 100.
Result<BurnInShares> parse_burn_in_shares(const std::string& text);

// Each usable rail with the same rail of another machine: host memory, then the GPUs whose own rail
// it is. Without a topology there are none, here and below.
std::vector<BurnInCase> cases_with_other_machine(const Host& host, const BurnInShares& shares);

// Each usable rail with itself, in the same order.
std::vector<BurnInCase> cases_of_loopback(const Host& host, const BurnInShares& shares);

// Each usable rail sends to the next one of its fabric, and the last one to the first, so that N
// measurements have every port once as the sender and once as the receiver. A fabric is all ports
// of Ethernet, or those of one subnet of InfiniBand; a rail that is alone there sends to itself.
//
// A pair of rails is measured with host memory at both ends, then with GPU i of the sender and GPU
// i of the receiver, so that each GPU sends and receives. The rail with fewer GPUs begins again
// with its first one; one without GPUs has host memory.
std::vector<BurnInCase> cases_of_ring(const Host& host, const BurnInShares& shares);

// The measurement of the sender alone.
BurnInCase to_itself(const BurnInCase& one);

}  // namespace gdr::tools::doctor

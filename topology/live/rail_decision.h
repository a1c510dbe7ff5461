// What was decided about the rails of a machine, and why: the plugin logs it at init and
// `nccl-gdr topo` shows it.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "topology/gdr_level.h"
#include "topology/rails.h"

namespace gdr::topology {

// The user's settings that a decision depends on.
struct DecisionOptions {
  std::optional<GdrLevel> gdr_level;  // NCCL_NET_GDR_LEVEL
  int gdr_read = -2;                  // NCCL_NET_GDR_READ, as in GdrPolicy
  bool gdr_c2c = true;                // NCCL_NET_GDR_C2C
  RailOptions rails;                  // ports named in NCCL_IB_HCA, and GDR_NCCL_RAIL_MAP
};

struct RailDecision {
  Machine machine;
  PathTable paths{machine};
  RailPlan plan;
  GdrPolicy policy;
  Findings findings;  // about how the machine was read and what was decided
};

// Plans the rails of `machine` and returns them with all that they were decided by; `findings` are
// those of reading the machine. A rail map that does not fit the machine adds a warning, and rails
// are then planned by distance.
RailDecision decide(Machine machine, DecisionOptions options, Findings findings);

// Returns the decision as log lines: one for each GPU with its rails, path class and GPUDirect
// verdict, then one for each rail that no GPU uses, and one for each excluded port. Example:
//   map GPU1 0000:43:00.0 rail 1 mlx5_3:1 path PIX GPUDirect yes: PIX is within P2C
//   map mlx5_1:1 excluded: no GPU is nearest to it
std::vector<std::string> describe(const RailDecision& decision);

// Whether every GPU is equally far from every rail and no nearer than PHB, as in virtual machines
// whose PCI tree shows no switches: distance then says nothing about which HCA is near which GPU.
bool is_flat(const RailDecision& decision);

}  // namespace gdr::topology

// What was decided about the rails of a machine, and why: the plugin logs it at init (rail_log.h)
// and `nccl-gdr topo` shows it.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "topology/gdr_level.h"
#include "topology/nccl/prediction.h"
#include "topology/rails.h"

namespace gdr::topology {

// The user's settings that a decision depends on.
struct DecisionOptions {
  nccl::Settings nccl;                // but for the level, which `gdr_level` sets
  std::optional<GdrLevel> gdr_level;  // NCCL_NET_GDR_LEVEL
  RailOptions rails;                  // ports named in NCCL_IB_HCA, and GDR_NCCL_RAIL_MAP
};

struct RailDecision {
  Machine machine;
  PathTable paths{machine};
  RailPlan plan;
  nccl::Prediction prediction;  // device i is the i-th usable rail
  Findings findings;            // about how the machine was read and what was decided
};

// Plans the rails of `machine` and returns them with all that they were decided by; `findings` are
// those of reading the machine. A rail map that does not fit the machine adds a warning, and rails
// are then planned by distance.
RailDecision decide(Machine machine, DecisionOptions options, Findings findings);

// Returns NCCL's prediction for the usable rails of a plan, in their order.
nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings);

// Returns the class of the path between a GPU and an HCA: that of the machine or, where NCCL goes
// over NVLink-C2C and PCIe, kP2c.
PathClass path_between(const RailDecision& decision, size_t gpu, size_t hca);

// Returns NCCL's verdicts on a GPU and an HCA. NCCL does not see an HCA that carries no usable
// rail, so both are "no" for it.
nccl::Verdicts verdicts_between(const RailDecision& decision, size_t gpu, size_t hca);

// Whether every GPU is equally far from every rail and no nearer than PHB, as in virtual machines
// whose PCI tree shows no switches: distance then says nothing about which HCA is near which GPU.
bool is_flat(const RailDecision& decision);

}  // namespace gdr::topology

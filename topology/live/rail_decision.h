// What was decided about the rails of a machine, and why: the plugin logs it at init (rail_log.h)
// and `nccl-gdr topo` shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/finding.h"
#include "topology/gdr_level.h"
#include "topology/rails.h"

namespace gdr::topology {

// The user's settings that a decision depends on.
struct DecisionOptions {
  std::optional<GdrLevel> gdr_level;  // NCCL_NET_GDR_LEVEL
  RailOptions rails;                  // ports named in NCCL_IB_HCA, and GDR_NCCL_RAIL_MAP
};

struct RailDecision {
  Machine machine;
  PathTable paths{machine};
  RailPlan plan;
  std::optional<PathClass> gdr_level = {};  // NCCL_NET_GDR_LEVEL; nothing: unset
  Findings findings = {};                   // about how the machine was read and what was decided
};

// The level where NCCL_NET_GDR_LEVEL is unset (NCCL 2.29 and later).
inline constexpr PathClass kDefaultGdrLevel = PathClass::kP2c;

// Plans the rails of `machine` and returns them with all that they were decided by; `findings` are
// those of reading the machine. A rail map that does not fit the machine adds a warning, and rails
// are then planned by distance.
RailDecision decide(Machine machine, DecisionOptions options, Findings findings);

// Whether every GPU is equally far from every rail and no nearer than PHB, as in virtual machines
// whose PCI tree shows no switches: distance then says nothing about which HCA is near which GPU.
bool is_flat(const RailDecision& decision);

}  // namespace gdr::topology

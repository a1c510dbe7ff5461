// Decides, from the rails, which ports the plugin offers to NCCL. Pure functions without effects;
// plugin.cc does what they decide.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/finding.h"
#include "plugin/config/options.h"
#include "plugin/discovery/discovery.h"
#include "topology/live/rail_decision.h"
#include "topology/live/verbs_ports.h"

namespace gdr::plugin {

// A port that NCCL is offered as a device.
struct OfferedPort {
  size_t source = 0;       // position in the list of ports it was chosen from
  topology::PortRef port;  // in RailDecision::machine
  int rail = 0;            // the rail's number
};

// Returns the active ones of `ports` that are rails, in order of rail numbers; position i is device
// i. A rail whose port is down keeps its number and is not offered; ports for which NCCL has no
// room go to `skipped`.
std::vector<OfferedPort> offered_ports(const topology::RailDecision& decision,
                                       const std::vector<topology::VerbsPort>& ports,
                                       std::vector<discovery::SkippedPort>* skipped);

// Returns the ports that are no GPU's rail, for the error where no port is left to offer.
std::vector<discovery::SkippedPort> excluded_ports(const topology::RailDecision& decision);

// Returns a warning where NCCL does not follow the user's map: the machine shows no distances
// (is_flat()), or another offered HCA is nearer to a GPU than the rails of its map. Nothing without
// a map.
std::optional<Finding> ignored_map(const topology::RailDecision& decision,
                                   const config::Options& options);

}  // namespace gdr::plugin

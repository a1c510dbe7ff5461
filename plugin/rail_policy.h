// Decides, from the rails, which ports the plugin offers to NCCL, and whether it should give NCCL a
// topology file of its own. Pure functions without effects; plugin.cc does what they decide.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/finding.h"
#include "plugin/config/options.h"
#include "topology/live/rail_decision.h"
#include "topology/live/verbs_ports.h"
#include "transport/device/hca_filter.h"

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
                                       std::vector<transport::SkippedPort>* skipped);

// Returns the ports that are no GPU's rail, for the error where no port is left to offer.
std::vector<transport::SkippedPort> excluded_ports(const topology::RailDecision& decision);

// Returns for MemoryOptions::over_pcie the GPUs, by PCI address, and HCAs for which NCCL asks for a
// mapping over PCIe although the GPU has NVLink-C2C: they are nearer by PCIe.
std::set<std::pair<std::string, std::string>> pairs_over_pcie(
    const topology::RailDecision& decision);

// Whether the plugin should set NCCL_TOPO_FILE to a topology in which every GPU sits beside its
// rails. NCCL chooses NICs by distance, so this is how it follows a rail map. Never where the user
// set NCCL_TOPO_FILE; else where a rail map is given and the machine's tree shows no distances
// (is_flat()), unless GPUs may have NVLink-C2C: the generated switches would lead GPUDirect over
// PCIe instead.
bool should_generate_topology(const topology::RailDecision& decision,
                              const config::Options& options);

// Returns the decision for the machine that the generated topology shows: the same rails, with each
// HCA under one switch with its GPUs.
topology::RailDecision grouped_decision(const topology::RailDecision& decision);

// Returns a warning that names the GPUs to which another offered HCA is nearer than the rails that
// the user's map gives them. Nothing without a map.
std::optional<Finding> map_against_distance(const topology::RailDecision& decision,
                                            const config::Options& options);

}  // namespace gdr::plugin

// Decides the rails of a machine as the plugin would: of this machine, or of one in a file.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "topology/live/rail_decision.h"

namespace gdr::tools::topo {

struct InspectOptions {
  // "live" for this machine; else the name of a file (XML of hwloc or NCCL), or of a folder
  // gathered by hwloc-gather-topology.
  std::string from = "live";
  // Override NCCL_NET_GDR_LEVEL, NCCL_IB_HCA and GDR_NCCL_RAIL_MAP of the process environment.
  std::optional<std::string> gdr_level, hca, rail_map;
};

// Returns the decision with all findings. The HCAs of a live machine are those that the verbs
// library lists, or those of sysfs where it cannot be loaded. Fails with kInvalidUsage or
// kInvalidArgument where one of the options cannot be used, and with another code where the machine
// cannot be read.
Result<topology::RailDecision> inspect(const InspectOptions& options);

}  // namespace gdr::tools::topo

// Reads a machine, this one or another, and decides about its rails as the plugin would.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "topology/live/rail_decision.h"

namespace gdr::tools::topo {

struct InspectOptions {
  // "live" for this machine, else a file (hwloc XML or NCCL XML) or a folder that
  // hwloc-gather-topology wrote on another machine.
  std::string from = "live";
  // Override NCCL_NET_GDR_LEVEL, NCCL_IB_HCA and GDR_NCCL_RAIL_MAP of the process environment.
  std::optional<std::string> gdr_level, hca, rail_map;
};

// Returns the machine with its rails and the notes that explain them. The HCAs of this machine are
// those of the verbs library or, where that cannot be loaded, those in sysfs. Fails with
// InvalidUsage for an option that cannot be used, with InvalidArgument for a file that is not a
// machine's.
Result<topology::RailDecision> inspect(const InspectOptions& options);

}  // namespace gdr::tools::topo

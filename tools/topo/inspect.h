// A machine with everything that the plugin would decide about it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "topology/live/rail_decision.h"

namespace gdr::tools {

struct InspectOptions {
  std::string from = "live";  // or a file (hwloc XML, NCCL XML), or a folder of gathered files
  // In place of NCCL_NET_GDR_LEVEL, NCCL_IB_HCA and GDR_NCCL_RAIL_MAP of the environment.
  std::optional<std::string> gdr_level, hca, rail_map;
};

// Live HCAs are those of the verbs library; where there is none, those in sysfs.
Result<topology::RailDecision> inspect(const InspectOptions& options);

}  // namespace gdr::tools

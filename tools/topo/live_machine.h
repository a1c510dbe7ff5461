// The machine that this process runs on, with the ports that the plugin would offer.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "tools/topo/inspect_settings.h"
#include "topology/model.h"

namespace gdr::tools::topo {

struct LiveMachine {
  topology::Machine machine;
  topology::Machine all;  // with the ports that NCCL_IB_HCA excludes, too, by the names of verbs
  std::vector<transport::SkippedPort> not_offered;  // as Inspection::not_offered
  std::string existing_hcas;                        // whether accepted or not: "mlx5_0, mlx5_1"
};

LiveMachine read_live(const InspectSettings& settings, Findings* findings);

}  // namespace gdr::tools::topo

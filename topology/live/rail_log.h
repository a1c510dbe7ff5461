// The decision about the rails as lines for the log.
#pragma once

#include <string>
#include <vector>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Returns the decision as log lines: one for each GPU with its rails, path class and GPUDirect
// verdict (gdr_verdict.h), then one for each rail that no GPU uses, and one for each excluded port.
// Example:
//   map GPU1 0000:43:00.0 rail 1 mlx5_3:1 path PIX GPUDirect yes: PIX is within P2C, ...
//   map mlx5_1:1 excluded: no GPU is nearest to it
std::vector<std::string> describe(const RailDecision& decision);

}  // namespace gdr::topology

// The decision about the rails as lines for the log.
#pragma once

#include <string>
#include <vector>

#include "topology/live/rail_agreement.h"
#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Returns the decision as log lines: one for each GPU with its rails, path class and GPUDirect
// verdict, then one for each rail that no GPU uses, one for each GPU that NCCL will serve by
// worse HCAs and one for all that it will serve by others (see rail_agreement.h), and one for each
// excluded port. `different` are disagreements(decision). Example:
//   map GPU1 0000:43:00.0 rail 1 mlx5_3:1 path PIX GPUDirect yes: PIX is within P2C
//   map mlx5_1:1 excluded: no GPU is nearest to it
std::vector<std::string> describe(const RailDecision& decision,
                                  const std::vector<Disagreement>& different);

}  // namespace gdr::topology

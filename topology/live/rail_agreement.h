// Where NCCL will use other HCAs for a GPU than its rails, why, and what makes it follow them.
#pragma once

#include <string>
#include <vector>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

struct Disagreement {
  size_t gpu = 0;               // index in Machine::gpus
  std::vector<PortRef> rails;   // the GPU's usable rails
  std::vector<PortRef> chosen;  // what NCCL uses, in the order of channels
  // "NCCL prefers bandwidth to distance: ..."; a part of a sentence. It says where GPUDirect is
  // lost or won.
  std::string reason;
  // A setting with which NCCL would use exactly the GPU's rails, by the same prediction; "": none
  // is known. "set NCCL_NETDEVS_POLICY=ALL"
  std::string fix;
};

// Returns the GPUs for which NCCL uses other HCAs than the rails, or not all of them. GPUs without
// a usable rail are left out.
std::vector<Disagreement> disagreements(const RailDecision& decision);

// Returns "GPU4: NCCL uses mlx5_8:1 where the rail is mlx5_4:1, as NCCL prefers ...", without fix.
std::string to_string(const Machine& machine, const Disagreement& one);

}  // namespace gdr::topology

// The machine as text.
#pragma once

#include <string>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// GPUs and HCAs as `nvidia-smi topo -m` prints them: GPU0.., NIC0.., CPU and NUMA affinity, the NIC
// legend; below it the rails, the ports that are none and why, and the GPUDirect verdict of each
// GPU with its rails.
std::string matrix_text(const RailDecision& view);

std::string json_text(
    const RailDecision& view);  // an object; its keys are documented in docs/topo.md

}  // namespace gdr::topology

// Whether GPUs can use GPUDirect RDMA with their own rails, by the distance that NCCL allows, and
// what its settings change about that.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

// Returns the verdict that keeps a GPU and its own rail from GPUDirect RDMA because they are too
// far apart; nothing where they are not, or where the GPU has no rail.
std::optional<Verdict> out_of_reach(const RailDecision& decision, size_t gpu);

// Returns those of the GPUs (indexes in Machine::gpus), or of all, that are out of reach.
std::vector<size_t> gpus_out_of_reach(const RailDecision& decision,
                                      const std::vector<size_t>& gpus);
std::vector<size_t> gpus_out_of_reach(const RailDecision& decision);

// Returns the decision with what NCCL would do with a level of NCCL_NET_GDR_LEVEL, or none.
RailDecision with_level(const RailDecision& decision, std::optional<PathClass> level);

// Returns the decision with what NCCL would do with NCCL_NET_GDR_C2C=1.
RailDecision with_c2c(const RailDecision& decision);

// Returns the first of the levels with which the fewest of the GPUs are out of reach; nothing where
// none of them leaves fewer than the level in force.
std::optional<PathClass> best_level(const RailDecision& decision, const std::vector<size_t>& gpus,
                                    std::initializer_list<PathClass> levels);

}  // namespace gdr::tools::topo

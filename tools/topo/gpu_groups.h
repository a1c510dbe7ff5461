// GPUs grouped by the PCIe switch that they share, to compare groups of like machines' parts.
#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "tools/prediction/predicted_rails.h"

namespace gdr::tools::topo {

// GPUs below one uppermost switch, and the rails there.
struct GpuGroup {
  int top = -1;               // index in Machine::switches; -1: one GPU, on the CPU itself
  std::vector<size_t> gpus;   // ascending
  std::vector<size_t> rails;  // positions in RailPlan::rails, ascending, whether up or down
};

// Returns the groups of all GPUs, in the order of their first GPU. Each GPU below no switch is a
// group without rails.
std::vector<GpuGroup> gpu_groups(const topology::PredictedRails& decision);

// Whether the GPUs are of one model, and on boards of one maker.
bool is_same_gpu_model(const topology::Gpu& a, const topology::Gpu& b);

// Whether uneven shares of `rails` among `gpus` are a fault: an even division is possible, or it
// would be with one more HCA, so that each GPU has one, or with one more GPU than an odd number.
// Else it is the design.
bool should_be_even(size_t gpus, size_t rails);

// Returns the GPUs of groups that lack something beside others: fewer HCAs of a known model, though
// some, than an equal number of GPUs below a switch of the same model has; or numbers of GPUs and
// rails that should come out even, and do not.
std::set<size_t> gpus_of_lacking_groups(const topology::PredictedRails& decision);

}  // namespace gdr::tools::topo

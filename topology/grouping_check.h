// What a topology file with grouped rails changes: how far its devices seem to be from each other.
#pragma once

#include <vector>

#include "base/finding.h"
#include "topology/path_class.h"

namespace gdr::topology {

// A pair of a GPU and another device whose path class differs between two machines.
struct ClassChange {
  enum class With { kGpu, kHca };
  size_t gpu = 0;  // an index in Machine::gpus
  With with = With::kGpu;
  size_t other = 0;  // an index in Machine::gpus, greater than `gpu`, or in Machine::hcas
  PathClass was = PathClass::kLoc;
  PathClass is = PathClass::kLoc;
  bool operator==(const ClassChange&) const = default;
};

// Returns all pairs whose class differs, by GPU, those with GPUs first. Both machines have the same
// GPUs and HCAs in the same order, as a machine and group_under_switches() of it have.
std::vector<ClassChange> class_changes(const Machine& machine, const Machine& grouped);

// Returns what a user of a topology file of `grouped` should know: for each GPU the classes that
// differ from those of the machine, as a warning where two GPUs seem farther apart than PXB, up to
// which NCCL lets GPUs copy to each other.
Findings grouping_findings(const Machine& machine, const Machine& grouped);

}  // namespace gdr::topology

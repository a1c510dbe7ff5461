// The GPUs of a machine as cards: the partitions of a GPU that is split (MLOPart) are one.
#pragma once

#include <cstddef>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// Returns the indexes in Machine::gpus of each card's GPUs, in their order. A card has one GPU
// unless that is split, when its partitions share the address.
std::vector<std::vector<size_t>> physical_gpus(const Machine& machine);

}  // namespace gdr::topology

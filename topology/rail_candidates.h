// Which ports of a machine carry the traffic of GPUs, and which belong to storage or management
// networks.
#pragma once

#include <vector>

#include "topology/path_class.h"
#include "topology/rail_candidate.h"

namespace gdr::topology {

// Returns all ports of the machine, in its order, none of them excluded. They point into `named`.
std::vector<RailCandidate> all_ports(const Machine& machine, const std::vector<NamedPort>& named);

// Returns all ports of the machine. A port is excluded, unless the user named it, where
//
// - it is a virtual function beside its physical one,
// - it is slow (slow_ports.h), or
// - no GPU has it among its nearest ports.
//
// The first reason that applies is given. On a machine without GPUs only the first rule applies.
std::vector<RailCandidate> rail_candidates(const Machine& machine, const PathTable& paths,
                                           const std::vector<NamedPort>& named);

}  // namespace gdr::topology

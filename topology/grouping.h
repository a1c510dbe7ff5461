// A machine rewritten so that its PCI tree shows the rails.
#pragma once

#include "topology/model.h"
#include "topology/rails.h"

namespace gdr::topology {

// Returns the machine with one invented switch for each set of GPUs that have the same rails. These
// GPUs and the HCAs of their rails are attached to the switch, so that NCCL, given the result as
// NCCL_TOPO_FILE, counts every such pair as PIX. An HCA of several groups goes to the first in
// which it is a GPU's first rail. Invented switches have addresses that no switch of the machine
// has (ffff:ff:01.0 and up) and are on the NUMA node of the group's first GPU. Switches that lose
// all their devices are dropped.
//
// This is meant for virtual machines whose tree hides how devices are connected, and for a rail map
// that differs from the distances. On other machines the result claims what is not true.
Machine group_under_switches(const Machine& machine, const RailPlan& plan);

}  // namespace gdr::topology

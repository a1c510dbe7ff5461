// A machine rewritten so that its PCI tree shows the rails.
#pragma once

#include "topology/model.h"
#include "topology/rails.h"

namespace gdr::topology {

// Returns the machine with HCAs moved beside the GPUs whose rails they carry, so that NCCL, given
// the result as NCCL_TOPO_FILE, finds every GPU nearest to its own rails.
//
// GPUs whose first rail is on the same HCA are a group, with that HCA and the others of their
// rails; an HCA of several groups goes to the first in which it is a GPU's first rail. A group is
// left as it is where each of its GPUs is nearer to its own rails than to all others. Otherwise
//
// - its HCAs are attached to the switch of its GPUs, if no other GPU and no other rail is there;
// - else an invented switch is added below the nearest switch that its GPUs have in common, or on
//   their NUMA node where they have none, and GPUs and HCAs are attached to it. Its address is one
//   that no switch of the machine has (ffff:ff:01.0 and up).
//
// No GPU leaves the outermost switch above it, nor its NUMA node. So two GPUs that are PIX or PXB
// remain so (PIX may become PXB), and two that are SYS remain that; two below no switch become PIX
// if they are of one group. Of a group that spreads over several outermost switches or NUMA nodes,
// only the GPUs of the one with the most of them come near to the HCAs. Switches that lose all
// their devices are dropped. See grouping_check.h for what such a file changes.
//
// This is meant for virtual machines whose tree hides how devices are connected, for a rail map
// that differs from the distances, and for rails that share a path class. The result claims what
// is not true.
Machine group_under_switches(const Machine& machine, const RailPlan& plan);

}  // namespace gdr::topology

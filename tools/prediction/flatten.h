// Two steps that NCCL applies to its graph of a machine: see ncclTopoFlattenBcmSwitches and
// ncclTopoSort in its src/graph/topo.cc.
#pragma once

#include "tools/prediction/graph.h"

namespace gdr::topology::nccl {

// Makes one switch of a Broadcom switch that shows itself as several. Neighbours are merged into
// the one that NCCL comes across first, whether they are below it, above it or linked to it by
// <pcilink>. Returns false where NCCL fails to.
bool flatten_broadcom(const Machine& machine, Graph* graph);

// Moves the link to the device above to the end of the links of each PCIe device. Returns false
// where NCCL does not end or crashes: PCIe links form a ring, or a device has no link upward.
bool put_uplinks_last(Graph* graph);

}  // namespace gdr::topology::nccl

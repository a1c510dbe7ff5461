// Broadcom PCIe switches that show themselves as several although they are one.
#pragma once

#include "topology/model.h"

namespace gdr::topology {

// Where in the chip a part is.
enum class BroadcomLevel { kOuter, kInner };

// Returns the PCIe generation (4 or 5) of such a switch, by the ids of a part at this level; 0: it
// is another switch. NCCL recognises them in this way (getBcmGen in src/graph/topo.cc).
int broadcom_generation(const PciIds& ids, BroadcomLevel level);

}  // namespace gdr::topology

// A machine from a folder of hwloc-gather-topology.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {

// Reads a folder with the /sys and /proc of another machine, as hwloc-gather-topology packs them.
// Fails with kInvalidUsage where it is another folder. Sets HWLOC_FSROOT for the while: no other
// thread may use the process environment.
Result<topology::Machine> read_gathered(const std::string& folder,
                                        const topology::Selection& selection);

}  // namespace gdr::tools::topo

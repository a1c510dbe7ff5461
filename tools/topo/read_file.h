// A machine from a file of any format, or from a folder of hwloc-gather-topology.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::tools::topo {

// Reads the machine of a file (see file_format.h). `host` is as InspectOptions::host. Fails with
// kInvalidUsage where the file does not have that host.
Result<topology::Machine> read_file(const std::string& file, topology::Selection selection,
                                    const std::optional<std::string>& host);

// Reads a folder with the /sys and /proc of another machine, as hwloc-gather-topology packs them.
// Fails with kInvalidUsage where it is another folder. Sets HWLOC_FSROOT for the while: no other
// thread may use the process environment.
Result<topology::Machine> read_gathered(const std::string& folder,
                                        const topology::Selection& selection);

}  // namespace gdr::tools::topo

// The machine as hwloc sees it. hwloc is loaded at run time: where it is missing, sysfs_machine
// does.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// The machine that runs this, or the one whose gathered files (hwloc-gather-topology, unpacked) lie
// under HWLOC_FSROOT. All devices of the machine, whatever this process may use of it (cgroups,
// CUDA_VISIBLE_DEVICES). HCAs are those with an RDMA device in sysfs.
Result<Machine> hwloc_live(const Selection& selection = {});

// A file that lstopo exported, of any machine. HCAs are the OpenFabrics devices in it.
Result<Machine> hwloc_xml(const std::string& file, const Selection& selection = {});

}  // namespace gdr::topology

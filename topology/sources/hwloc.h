// The machine as hwloc (https://www.open-mpi.org/projects/hwloc/) describes it. The library
// is loaded at run time, so both functions fail with Unsupported where libhwloc.so.15 is missing;
// sysfs_machine() then reads the live machine without it.
#pragma once

#include <string>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads this machine or, where HWLOC_FSROOT is set, the one whose files hwloc-gather-topology
// collected there (unpacked). All devices of the machine are in it, whatever cgroups or
// CUDA_VISIBLE_DEVICES allow this process. HCAs are the RDMA devices in sysfs.
Result<Machine> hwloc_live(const Selection& selection = {});

// Reads a file that `lstopo --of xml FILE` of hwloc 1 or 2 wrote on any machine. HCAs are its
// OpenFabrics devices. Such files lack the speed of links and ports. Fails with InvalidArgument;
// the text names the file and the line.
Result<Machine> hwloc_xml(const std::string& file, const Selection& selection = {});

}  // namespace gdr::topology

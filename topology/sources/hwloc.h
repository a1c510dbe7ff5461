// The machine as hwloc (https://www.open-mpi.org/projects/hwloc/) describes it. The library
// is loaded at run time, so hwloc_live() fails with Unsupported where libhwloc.so.15 is missing;
// sysfs_machine() then reads the live machine without it.
#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/hwloc_library.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads this machine or, where HWLOC_FSROOT is set, the one whose files hwloc-gather-topology
// collected there (unpacked). All devices of the machine are in it, whatever cgroups or
// CUDA_VISIBLE_DEVICES allow this process. HCAs are the RDMA devices in sysfs.
Result<Machine> hwloc_live(const Selection& selection = {});

// Returns the machine of a loaded topology. sysfs: of the live machine; nothing for a file, whose
// HCAs are its OpenFabrics devices.
Machine machine_of(const HwlocLibrary& library, const HwlocTopology& topology,
                   const Selection& selection, std::optional<std::filesystem::path> sysfs);

}  // namespace gdr::topology

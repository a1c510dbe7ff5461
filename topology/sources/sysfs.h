// The machine as the kernel shows it in /sys, without hwloc.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads bus/pci/devices, devices/system/node, devices/system/cpu and class/infiniband under
// sysfs_root and ../proc/cpuinfo beside it. The kernel documents these files in Documentation/ABI,
// in testing/sysfs-bus-pci and stable/sysfs-class-infiniband. NVLinks are unknown to sysfs. Fails
// where there is no sysfs at that path.
Result<Machine> sysfs_machine(const std::filesystem::path& sysfs_root = "/sys",
                              const Selection& selection = {});

}  // namespace gdr::topology

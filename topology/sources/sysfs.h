// The machine from /sys alone.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "topology/model.h"
#include "topology/sources/selection.h"

namespace gdr::topology {

// Reads bus/pci/devices, devices/system/node and class/infiniband under sysfs_root.
Result<Machine> sysfs_machine(const std::filesystem::path& sysfs_root = "/sys",
                              const Selection& selection = {});

}  // namespace gdr::topology

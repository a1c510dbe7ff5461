// The part of sysfs that users of a verbs device read, written as files into the process's folder:
// ibv_device::ibdev_path points into it.
#pragma once

#include <string>

#include "softhca/model/config.h"

namespace softhca {

// Creates <root>/class/infiniband/<name> with its ports, as the kernel documents them in
// Documentation/ABI/stable/sysfs-class-infiniband. When the configuration names a PCI function, a
// link `device` leads to it: to the real one in /sys where it exists, else to one that is created
// under <root>/devices.
void make_sysfs_tree(const std::string& root, const DeviceConfig& device);

// Rewrites the files of one GID, that of a LID, or those of the state, after a change. `port`
// counts from 1. An active port that goes down counts in counters/link_downed, the only counter
// that there is.
void write_gid_files(const std::string& root, const DeviceConfig& device, uint32_t port,
                     uint32_t index, const GidEntry& entry);
void write_lid_file(const std::string& root, const DeviceConfig& device, uint32_t port,
                    uint16_t lid);
void write_state_files(const std::string& root, const DeviceConfig& device, uint32_t port,
                       bool active);

// Removes what make_sysfs_tree() created in <root>/class/infiniband.
void remove_sysfs_tree(const std::string& root, const DeviceConfig& device);

// Creates <root>/module, and the `version` file by which programs recognise the configured peermem
// module: <root>/module/nvidia_peermem or <root>/kernel/mm/memory_peers/nv_mem.
void make_module_tree(const std::string& root, PeermemModule peermem);

}  // namespace softhca

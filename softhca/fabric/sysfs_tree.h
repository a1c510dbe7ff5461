// The part of sysfs that users of a verbs device read, built as files in the process's folder.
#pragma once

#include <string>

#include "softhca/model/config.h"

namespace softhca {

// Creates <root>/class/infiniband/<name> with its ports and, when the device has a PCI place, a
// `device` link: to the real function in /sys when there is one, else to one made up under
// <root>/devices.
void make_sysfs_tree(const std::string& root, const DeviceConfig& device);

// Creates <root>/module, and what tells of a module that registers CUDA addresses, where there is
// one.
void make_module_tree(const std::string& root, PeermemModule peermem);

}  // namespace softhca

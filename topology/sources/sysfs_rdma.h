// Where an RDMA device sits on the PCI tree, from sysfs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "topology/bdf.h"

namespace gdr::topology {

struct PciPlace {
  std::string sysfs_path;  // the PCI function's own folder, every link resolved
  Bdf bdf;
  int numa_node = -1;  // -1: not known
};

// ibdev_path is the device's folder as the verbs library names it (ibv_device::ibdev_path); it need
// not lie under sysfs_root. A virtual device (rxe, siw) has no `device` link there but a `parent`
// file that names its network interface, whose place is then taken; a VLAN or the like stands for
// the one interface below it. Nothing when the device is on no PCI function that can be seen.
std::optional<PciPlace> pci_place(const std::filesystem::path& ibdev_path,
                                  const std::filesystem::path& sysfs_root = "/sys");

}  // namespace gdr::topology

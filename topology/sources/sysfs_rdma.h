// RDMA devices, from sysfs: what they are and where they sit on the PCI tree.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "topology/builder.h"
#include "topology/model.h"

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

// What sysfs tells of the function at that place: address, class, ids, link, physical function.
void fill_function(Hca* hca, const PciPlace& place);

// "0c42:a103:0055:62a2", the first digits the most significant; 0 where the text is no GUID.
uint64_t parse_guid(const std::string& text);

// Adds the RDMA devices of class/infiniband, where there are any, with their ports. `position_of`
// tells where a function hangs.
void add_rdma_devices(Machine* machine, const std::filesystem::path& sysfs_root,
                      const std::function<PciPosition(const PciPlace&)>& position_of);

// The place of an HCA that is on no PCI function: NCCL hangs it on the first CPU that it knows,
// which is that of the process's own GPU; here, for all processes alike, that of the first GPU. All
// others are to be attached before.
Attachment attach_without_pci(const Machine& machine);

}  // namespace gdr::topology

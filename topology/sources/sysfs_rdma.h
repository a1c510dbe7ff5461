// RDMA devices in sysfs: their ports, and the PCI functions that they belong to.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "topology/builder.h"
#include "topology/model.h"

namespace gdr::topology {

// The PCI function of an RDMA device.
struct PciLocation {
  std::string sysfs_path;  // the function's folder, with every link resolved
  Bdf bdf;
  int numa_node = -1;  // -1: unknown
};

// Returns the PCI function of an RDMA device, or nothing where it has none that this process can
// see. ibdev_path is the device's folder as the verbs library names it (ibv_device::ibdev_path); it
// need not lie under sysfs_root. A virtual device (rxe, siw) has no `device` link in that folder
// but a `parent` file with the name of its network interface; the result is then the function of
// that interface or, for a VLAN and the like, of the only interface below it.
std::optional<PciLocation> pci_location(const std::filesystem::path& ibdev_path,
                                        const std::filesystem::path& sysfs_root = "/sys");

// Returns the PCI function whose folder in sysfs is given, or nothing where this process cannot see
// it.
std::optional<PciLocation> pci_location_of_function(const std::filesystem::path& folder);

// Sets what sysfs has about the function: address, class, ids, link and physical function.
void fill_function(Hca* hca, const PciLocation& location);

// Parses "0c42:a103:0055:62a2", the most significant digits first. Returns 0 for any other text.
uint64_t parse_guid(const std::string& text);

// Adds the RDMA devices of class/infiniband with their ports. `position_of` returns the position of
// a function in the PCI tree.
void add_rdma_devices(Machine* machine, const std::filesystem::path& sysfs_root,
                      const std::function<PciPosition(const PciLocation&)>& position_of);

// Returns the attachment of an HCA without a PCI function. NCCL attaches it to the first CPU that
// it knows, which is that of the process's own GPU. Here it is the NUMA node of the machine's first
// GPU, so that all processes agree. All other devices must have been attached before.
Attachment attach_without_pci(const Machine& machine);

}  // namespace gdr::topology

// The PCI path that NCCL is given for a device. NCCL finds the NIC by it on its own PCI tree, and
// counts the bandwidth of a card's PCIe link once for all devices that report one path.
#pragma once

#include <set>
#include <string>

#include "topology/bdf.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::plugin {

// Returns the function that stands for all functions of its card, as NCCL's own transport reports
// them (ncclIbGetPciPath in its src/transport/net_ib): function 0 and, with merge_functions
// (NCCL_IB_MERGE_VFS), device 0 of the bus; `sysfs_path` itself where that is not a network
// function of the same vendor, as in a virtual machine that was given the virtual function alone.
// Example: .../0000:3b:00.1 -> .../0000:3b:00.0.
std::string merged_path(const std::string& sysfs_path, bool merge_functions);

// Returns the path to report for a device: that of its own function where NCCL's topology file
// lists its address (`listed`), since NCCL looks it up there; else merged_path().
std::string reported_path(const topology::PciLocation& location,
                          const std::set<topology::Bdf>& listed, bool merge_functions);

}  // namespace gdr::plugin

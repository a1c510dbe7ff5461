// Small files of /sys, and PCI functions with their position in the tree; for all readers of sysfs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/builder.h"
#include "topology/model.h"

namespace gdr::topology {

// Returns the first line of a file without blanks at its end; "" where the file cannot be read.
std::string first_line(const std::filesystem::path& file);

// Returns the NUMA node of the PCI function with this folder; -1: unknown.
int numa_node(const std::filesystem::path& function);

// Returns whether the folder is that of a PCI function, and not of a virtio or platform device
// below one, whatever its name. Where its subsystem cannot be read, as in some containers, the name
// decides.
bool is_pci_function(const std::filesystem::path& folder);

struct PciFunction {
  Bdf bdf;
  uint32_t class_code = 0;
  PciIds ids;
  PciLink link;                          // the lesser of what the function and its slot support
  std::optional<Bdf> physical_function;  // only for a virtual function
};

// Reads a function. `folder` may be a link, as in bus/pci/devices. Files that cannot be read leave
// their fields 0. Returns nothing where the folder's name is not a PCI address.
std::optional<PciFunction> pci_function(const std::filesystem::path& folder);

// Returns the folders of all PCI functions with every link resolved, sorted.
std::vector<std::filesystem::path> pci_folders(const std::filesystem::path& sysfs_root);

// Returns the position that a function's path shows, which must have its links resolved:
// /sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0 is below host bridge 0000:3a and bridge
// 0000:3a:00.0.
PciPosition pci_position(const std::filesystem::path& folder);

// Returns the NUMA node that NCCL puts a function on: that of `top`, the folder of the topmost
// switch above it (see topmost_switch()), or its own where that is unknown.
int numa_node_of_tree(const std::filesystem::path& top, const std::filesystem::path& function);

// Adds the peers of a switch of Broadcom (Switch::peers) that it does not have yet, from the folder
// that Broadcom's kernel module makes and NCCL reads (ncclOsGetBcmLinks in its src/os/linux.cc).
void add_peers(Switch* one, const std::filesystem::path& sysfs_root);

// Adds the peers of all switches.
void add_switch_peers(Machine* machine, const std::filesystem::path& sysfs_root);

// Parses the speed of a link: "16.0 GT/s PCIe" gives 16. Returns 0 where there is no number.
double gt_per_s(const std::string& text);

// Parses the text of ports/N/rate, such as "2.5 Gb/sec (1X SDR)", into Mb/s; 0 for any other text.
int rate_mbps(std::string_view text);

}  // namespace gdr::topology

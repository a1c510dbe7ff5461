// What the readers of /sys share: small files, and PCI functions with their place in the tree.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "topology/builder.h"
#include "topology/model.h"

namespace gdr::topology {

// Without the blanks at its end; "" where the file cannot be read.
std::string first_line(const std::filesystem::path& file);

// Of a PCI function's folder; -1: not known.
int numa_node(const std::filesystem::path& function);

// Whether the folder is that of a PCI function. A virtio or platform child of one is none, whatever
// it is called; where its subsystem cannot be read (some containers), the name decides.
bool is_pci_function(const std::filesystem::path& folder);

struct PciFunction {
  Bdf bdf;
  uint32_t class_code = 0;
  PciIds ids;
  PciLink link;                          // of the function and its slot, whichever can do less
  std::optional<Bdf> physical_function;  // of a virtual function
};

// `folder` may be a link, as in bus/pci/devices. What cannot be read stays 0.
std::optional<PciFunction> pci_function(const std::filesystem::path& folder);

// The folders of all PCI functions, every link resolved.
std::vector<std::filesystem::path> pci_folders(const std::filesystem::path& sysfs_root);

// From the path alone, which has no links: /sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0.
PciPosition pci_position(const std::filesystem::path& folder);

// "16.0 GT/s PCIe" -> 16; 0 where there is no number.
double gt_per_s(const std::string& text);

}  // namespace gdr::topology

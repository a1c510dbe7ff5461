// The size of the window through which PCIe devices see a GPU's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gdr::transport {

// Of the GPU at that PCI address ("0000:1a:00.0"): its largest memory window, in bytes, as sysfs
// lists them; nothing where it does not. `sysfs_root` is where sysfs is mounted.
std::optional<uint64_t> bar1_bytes(const std::string& pci_id,
                                   const std::string& sysfs_root = "/sys");

}  // namespace gdr::transport

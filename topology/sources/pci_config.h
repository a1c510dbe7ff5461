// The configuration space of PCI functions, as the `config` files of sysfs show it: where its
// capabilities are (PCI Express Base Specification, section 7.5 and following).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace gdr::topology {

// Where a capability is.
struct PciCapability {
  bool known = false;  // false: the data end, or the list is broken, before it could be found
  size_t at = 0;       // its offset; 0: the function does not have it
};

// Returns what the `config` file in a function's folder of sysfs has: 4096 bytes, 256 of a function
// without extended space, 64 without CAP_SYS_ADMIN, none where it cannot be read.
std::vector<uint8_t> read_config(const std::filesystem::path& function);

// Finds an extended capability, which is at 256 or above: 0x000d is ACS.
PciCapability find_extended_capability(std::span<const uint8_t> config, uint16_t id);

// Returns the little-endian number of two bytes at an offset; nothing where the data end before.
std::optional<uint16_t> word_at(std::span<const uint8_t> config, size_t at);

}  // namespace gdr::topology

// The state of PCI functions as sysfs shows it at this moment, beside what the model of a machine
// holds: what a link runs at, and settings that cost bandwidth.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "topology/model.h"

namespace gdr::tools::topo {

struct PciState {
  topology::PciLink current;  // what the link runs at; 0: unknown
  uint64_t largest_bar = 0;   // size in bytes; 0: unknown
  // What the function and its slot support, whatever a topology file states; 0: unknown.
  topology::PciLink best = {};
  bool operator==(const PciState&) const = default;
};

using PciStates = std::map<topology::Bdf, PciState>;

// Reads the state of the machine's switches, GPUs and HCAs. Files that are absent or cannot be read
// leave their fields unknown; functions without a folder in sysfs are left out.
PciStates read_pci_states(const topology::Machine& machine,
                          const std::filesystem::path& sysfs_root);

// Returns the size of the largest region in the text of sysfs's file `resource`: lines of first
// address, last address and flags, the first six of which are the BARs.
uint64_t largest_bar(std::string_view resource);

}  // namespace gdr::tools::topo

// GPUs that show only a part of their memory on PCIe: the BAR by which HCAs access it is smaller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/topo/pci_state.h"

namespace gdr::tools::topo {

struct SmallBar {
  size_t gpu = 0;    // index in Machine::gpus
  std::string text;  // "shows 0.25 GiB of the 80 GB of its memory"
};

// The memory of GPUs in bytes, by address, where it is known.
using GpuMemory = std::map<topology::Bdf, uint64_t>;

inline constexpr char kFixOfSmallBar[] =
    "enable above-4G decoding and resizable BARs in the firmware";

// Compares the largest BAR of each GPU with its memory, by the model's name ("H100 80GB") where
// `memory` lacks it, and with the BARs of GPUs of the same model. A GPU with NVLink-C2C is mapped
// over C2C, so that its BAR means nothing; it is left out, and so is one whose BAR is unknown.
std::vector<SmallBar> small_bars(const topology::Machine& machine, const PciStates& states,
                                 const GpuMemory& memory = {});

// Returns the gigabytes that a model's name states ("NVIDIA A100-SXM4-80GB"); 0: none.
double gigabytes_in(const std::string& model);

}  // namespace gdr::tools::topo

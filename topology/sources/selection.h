// What a source reads of what it finds: which PCI functions count as GPUs, and which host.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/bdf.h"

namespace gdr::topology {

inline constexpr uint16_t kNvidia = 0x10de;
inline constexpr uint16_t kAmd = 0x1002;

struct Selection {
  // Vendors whose display controllers (class 03xx) and processing accelerators (12xx) are GPUs.
  // Those of other vendors are not, such as the VGA controller of a server's management processor,
  // and neither are AMD's VGA controllers (class 0300): its accelerators have other classes.
  std::vector<uint16_t> gpu_vendors = {kNvidia, kAmd};

  // Functions that are GPUs or NICs whatever their class, which NCCL's topology files may lack:
  // NCCL finds the devices that its process sees by their addresses.
  std::vector<Bdf> known_gpus = {};
  std::vector<Bdf> known_nics = {};
  bool is_live() const { return !known_gpus.empty() || !known_nics.empty(); }
  // Which host of a file that describes several (NCCL's of an NVLink domain), counted from 0 in the
  // order of the file.
  int host = 0;

  // `class_code` has 24 bits: class, subclass and programming interface.
  bool is_gpu(uint32_t class_code, uint16_t vendor) const {
    uint32_t base = class_code >> 16;
    if (base != 0x03 && base != 0x12) return false;
    if (vendor == kAmd && class_code >> 8 == 0x0300) return false;
    for (uint16_t one : gpu_vendors) {
      if (one == vendor) return true;
    }
    return false;
  }
};

}  // namespace gdr::topology

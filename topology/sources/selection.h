// Which PCI functions a source takes for GPUs.
#pragma once

#include <cstdint>
#include <vector>

namespace gdr::topology {

inline constexpr uint16_t kNvidia = 0x10de;
inline constexpr uint16_t kAmd = 0x1002;

struct Selection {
  // Vendors whose display controllers (class 03xx) and processing accelerators (12xx) are GPUs:
  // NVIDIA and AMD. Others (a server's own VGA) are not, nor is an AMD VGA controller.
  std::vector<uint16_t> gpu_vendors = {kNvidia, kAmd};

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

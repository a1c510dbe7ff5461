#include "transport/memory/bar1.h"

#include <algorithm>
#include <fstream>

namespace gdr::transport {

// A line for each window: first address, last address, flags. Which of them is BAR1 depends on the
// generation, but it is always the largest.
std::optional<uint64_t> bar1_bytes(const std::string& pci_id, const std::string& sysfs_root) {
  constexpr int kWindows = 6;
  constexpr uint64_t kIoPorts = 0x100;
  if (pci_id.empty()) return {};
  std::ifstream file(sysfs_root + "/bus/pci/devices/" + pci_id + "/resource");
  uint64_t largest = 0, first = 0, last = 0, flags = 0;
  file >> std::hex;
  for (int i = 0; i < kWindows && file >> first >> last >> flags; ++i) {
    if (last > first && (flags & kIoPorts) == 0) largest = std::max(largest, last - first + 1);
  }
  if (largest == 0) return {};
  return largest;
}

}  // namespace gdr::transport

#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      // GPUs and their driver

      // PCIe
      pci_acs(), iommu(), pcie_link(), max_read_request(), relaxed_ordering(), numa(),

      // Ports and fabric

      // The process, the system and containers
      memory_lock(),

      // Settings and libraries
  };
  return checks;
}

}  // namespace gdr::tools::doctor

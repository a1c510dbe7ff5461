// Every check of the doctor, one function a file: checks/pci_acs.cc has pci_acs().
#pragma once

#include <vector>

#include "tools/doctor/check.h"

namespace gdr::tools::doctor {

// Returns all of them, in the order in which --all prints them: from the GPU's driver along the
// path of the bytes to the fabric, then the process and its settings.
const std::vector<Check>& all_checks();

// GPUs and their driver (checks of memory registration included)

// PCIe
Check pci_acs();
Check iommu();
Check pcie_link();
Check max_read_request();
Check relaxed_ordering();
Check numa();

// Ports and fabric

// The process, the system and containers
Check memory_lock();

// Settings and libraries

}  // namespace gdr::tools::doctor

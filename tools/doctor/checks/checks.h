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

// Ports and fabric

// The process, the system and containers
Check memory_lock();
Check open_files();
Check shm();
Check cgroup();
Check device_files();
Check sysfs();
Check numa_balancing();

// Settings and libraries
Check nccl_transport();
Check nccl_filters();
Check nccl_variables();
Check nccl_contradictions();
Check nccl_conf();
Check verbs_library();
Check nccl_library();
Check net_plugin();

}  // namespace gdr::tools::doctor

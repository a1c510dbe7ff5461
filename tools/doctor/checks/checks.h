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
Check rdma_devices();
Check port_state();
Check subnet_manager();
Check link_layer();
Check port_rate();
Check port_mtu();
Check roce_gids();
Check ip_subnets();
Check congestion_control();
Check error_counters();
Check hca_firmware();

// The process, the system and containers
Check memory_lock();

// Settings and libraries

}  // namespace gdr::tools::doctor

// Every check of the doctor, one function a file: checks/pci_acs.cc has pci_acs().
#pragma once

#include <vector>

#include "tools/doctor/check.h"

namespace gdr::tools::doctor {

// Returns all of them, in the order in which --all prints them: from the GPU's driver along the
// path of the bytes to the fabric, then the process and its settings.
const std::vector<Check>& all_checks();

// GPUs and their driver (checks of memory registration included)
Check nvidia_driver();
Check cuda_driver();
Check memory_registration();
Check nv_peer_mem();
Check bar1();
Check gpu_rail_path();
Check rails();
Check nvlink();

// PCIe
Check pci_acs();
Check iommu();
Check pcie_link();
Check max_read_request();
Check relaxed_ordering();
Check numa();

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

}  // namespace gdr::tools::doctor

// Every check of the doctor: a row of the table in checks.cc, and the function that runs it in the
// file of its subject.
#pragma once

#include <string_view>
#include <vector>

#include "tools/doctor/check.h"

namespace gdr::tools::doctor {

// Returns all of them, in the order in which --all prints them: from the GPU's driver along the
// path of the bytes to the fabric, then the process and its settings.
const std::vector<Check>& all_checks();

// Returns the check of that name. Ends the process where there is none.
const Check& check_named(std::string_view name);

// GPUs and their driver (checks of memory registration included)
Observations run_nvidia_driver(const Host& host);
Observations run_cuda_driver(const Host& host);
Observations run_memory_registration(const Host& host);
Observations run_bar1(const Host& host);
Observations run_gpu_rail_path(const Host& host);
Observations run_rails(const Host& host);
Observations run_nvlink(const Host& host);

// PCIe
Observations run_pci_acs(const Host& host);
Observations run_iommu(const Host& host);
Observations run_pcie_link(const Host& host);
Observations run_numa(const Host& host);

// Ports and fabric
Observations run_rdma_devices(const Host& host);
Observations run_port_state(const Host& host);
Observations run_link_layer(const Host& host);
Observations run_port_rate(const Host& host);
Observations run_port_mtu(const Host& host);
Observations run_roce_gids(const Host& host);
Observations run_ip_subnets(const Host& host);
Observations run_error_counters(const Host& host);
Observations run_good_machine(const Host& host);

// The process, the system and containers
Observations run_memory_lock(const Host& host);
Observations run_sysfs(const Host& host);

// Settings and libraries
Observations run_nccl_transport(const Host& host);
Observations run_nccl_filters(const Host& host);
Observations run_nccl_variables(const Host& host);
// The part of it about NCCL's topology file.
void judge_topology_file(const Host& host, Observations* seen);
Observations run_nccl_conf(const Host& host);
Observations run_verbs_library(const Host& host);
Observations run_nccl_library(const Host& host);
Observations run_net_plugin(const Host& host);

}  // namespace gdr::tools::doctor

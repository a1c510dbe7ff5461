#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      // GPUs and their driver
      nvidia_driver(),
      cuda_driver(),
      memory_registration(),
      nv_peer_mem(),
      bar1(),
      gpu_rail_path(),
      rails(),
      nvlink(),

      // PCIe
      pci_acs(),
      iommu(),
      pcie_link(),
      max_read_request(),
      relaxed_ordering(),
      numa(),

      // Ports and fabric
      rdma_devices(),
      port_state(),
      subnet_manager(),
      link_layer(),
      port_rate(),
      port_mtu(),
      roce_gids(),
      ip_subnets(),
      congestion_control(),
      error_counters(),
      hca_firmware(),

      // The process, the system and containers
      device_files(),
      sysfs(),
      memory_lock(),
      shm(),
      cgroup(),
      open_files(),
      numa_balancing(),

      // Settings and libraries
      nccl_transport(),
      nccl_filters(),
      nccl_variables(),
      nccl_contradictions(),
      nccl_conf(),
      verbs_library(),
      nccl_library(),
      net_plugin(),
  };
  return checks;
}

}  // namespace gdr::tools::doctor

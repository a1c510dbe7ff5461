#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      // GPUs and their driver

      // PCIe

      // Ports and fabric

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

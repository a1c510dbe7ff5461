#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      // GPUs and their driver

      // PCIe

      // Ports and fabric
      rdma_devices(), port_state(), subnet_manager(), link_layer(), port_rate(), port_mtu(),
      roce_gids(), ip_subnets(), congestion_control(), error_counters(), hca_firmware(),

      // The process, the system and containers
      memory_lock(),

      // Settings and libraries
  };
  return checks;
}

}  // namespace gdr::tools::doctor

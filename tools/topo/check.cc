#include "tools/topo/check.h"

#include "tools/topo/checks.h"

namespace gdr::tools::topo {

CheckReport check_machine(const Inspection& inspection) {
  PciStates states;
  if (!inspection.sysfs_root.empty()) {
    states = read_pci_states(inspection.decision.machine, inspection.sysfs_root);
  }
  return check_machine(inspection, states);
}

CheckReport check_machine(const Inspection& inspection, const PciStates& states) {
  const CheckInput input{inspection, states};
  CheckReport report;
  for (auto check : {check_links, check_gpu_links, check_ports, check_rails, check_missing_gpus,
                     check_settings, check_diagnostics}) {
    check(input, &report);
  }
  return report;
}

}  // namespace gdr::tools::topo

// Looks for what makes a machine slow: devices that differ from their peers, and settings that keep
// NCCL from GPUDirect RDMA on the rails.
//
// Only what is known is judged. What is unknown becomes a note, once for each kind, and is not a
// fault.
#pragma once

#include "tools/topo/check_report.h"
#include "tools/topo/inspection.h"
#include "tools/topo/pci_state.h"

namespace gdr::tools::topo {

// Checks a machine, with the states that its sysfs shows where the inspection has one.
CheckReport check_machine(const Inspection& inspection);

// The same with these states.
CheckReport check_machine(const Inspection& inspection, const PciStates& states);

}  // namespace gdr::tools::topo

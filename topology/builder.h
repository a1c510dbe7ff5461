// What every source needs to turn PCI functions, as an operating system lists them, into a Machine.
#pragma once

#include <optional>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

struct Bridge {
  Bdf bdf;
  uint32_t class_code = 0x060400;
  PciIds ids;
  PciLink link;
};

// Where the operating system sees a PCI function.
struct PciPosition {
  std::vector<Bridge> bridges;  // above it, the root port first
  std::optional<HostBridge> host_bridge;
  int numa = -1;  // the node's own number; -1: not known
};

// Index of the NUMA node of this number, which is added where it is missing.
int numa_index(Machine* machine, int id);

// The attachment of a function at this position. Adds the switches, the host bridge and the NUMA
// node that the machine lacks. Of bridges every second one, counted from the function, is a switch:
// the function's own downstream port is passed over and its upstream port counts, as NCCL has it; a
// root port alone is none.
Attachment attach(Machine* machine, const PciPosition& position);

}  // namespace gdr::topology

// Turns the position of a PCI function, as an operating system lists it, into an Attachment of the
// Machine. Every source that knows bridges uses it.
#pragma once

#include <optional>
#include <vector>

#include "topology/model.h"

namespace gdr::topology {

// A PCI-to-PCI bridge: a root port, or one port of a switch.
struct Bridge {
  Bdf bdf;
  uint32_t class_code = 0x060400;
  PciIds ids;
  PciLink link;
};

// Where the operating system shows a PCI function.
struct PciPosition {
  std::vector<Bridge> bridges;  // above the function, the root port first
  std::optional<HostBridge> host_bridge;
  // The operating system's number of the NUMA node; -1: unknown. Of a function below switches it is
  // the node of the topmost one, as NCCL has it.
  int numa = -1;
};

// Returns the index in Machine::numa_nodes of the node with the operating system's number `id`.
// Adds the node where the machine lacks it.
int numa_index(Machine* machine, int id);

// Returns the attachment of a function at this position, and adds the switches, the host bridge and
// the NUMA node that the machine lacks.
//
// Counted upwards from the function, every second bridge is a switch: the first is the downstream
// port that the function is connected to, the second the upstream port, which stands for the
// switch. A root port alone is not a switch. NCCL counts in the same way (ncclTopoGetXmlFromSys in
// src/graph/xml.cc goes up two levels for each switch).
//
//   root port 16:01.0 - upstream 17:00.0 - downstream 18:00.0 - GPU 19:00.0   switch 17:00.0
//   root port 3a:02.0 - GPU 3b:00.0                                           no switch
Attachment attach(Machine* machine, const PciPosition& position);

// Returns the index in position.bridges of the topmost bridge that attach() counts as a switch;
// nothing where there is none.
std::optional<size_t> topmost_switch(const PciPosition& position);

}  // namespace gdr::topology

// Machines of eight GPUs and four HCAs for the checks of the topology.
#pragma once

#include <functional>
#include <utility>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::doctor {

// A host with the good machine of checked_machine.h, changed by `change`.
class InspectedHost : public MadeHost {
 public:
  explicit InspectedHost(const std::function<void(topology::Machine*)>& change = {},
                         const topology::nccl::Settings& settings = {}) {
    topology::Machine machine = topo::good_machine();
    if (change) change(&machine);
    host.pci_states = topo::good_states(machine);
    host.inspection =
        topo::Inspection{topology::scene_of(std::move(machine), settings), {}, "/sys"};
  }

  const topology::Machine& machine() const { return host.inspection->decision.machine; }
};

}  // namespace gdr::tools::doctor

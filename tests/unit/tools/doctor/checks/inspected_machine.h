// Machines of eight GPUs and four HCAs for the checks of the topology.
#pragma once

#include <functional>
#include <utility>

#include "tests/unit/tools/doctor/made_host.h"
#include "tests/unit/tools/topo/checked_machine.h"

namespace gdr::tools::doctor {

// A host with the good machine of checked_machine.h.
class InspectedHost : public MadeHost {
 public:
  InspectedHost() {
    set([](topology::Machine*) {});
  }

  // Replaces the machine by the good one, changed by `change`.
  void set(const std::function<void(topology::Machine*)>& change,
           const topology::nccl::Settings& settings = {}) {
    topology::Machine machine = topo::good_machine();
    change(&machine);
    host.pci_states = topo::good_states(machine);
    host.inspection =
        topo::Inspection{topology::scene_of(std::move(machine), settings), {}, "/sys"};
  }

  const topology::Machine& machine() const { return host.inspection->decision.machine; }
};

using InspectedCase = CheckCase<InspectedHost>;

// Each check of the topology has nothing to say without a GPU, and knows nothing without a
// topology.
inline const InspectedCase kNoGpuCase = {
    "no GPU",
    [](InspectedHost* made) {
      made->set([](topology::Machine* machine) { machine->gpus.clear(); });
    },
    Verdict::kNothing};
inline const InspectedCase kNoHcaCase = {
    "no HCA",
    [](InspectedHost* made) {
      made->set([](topology::Machine* machine) { machine->hcas.clear(); });
    },
    Verdict::kNothing};
inline const InspectedCase kNoTopologyCase = {
    "no topology", [](InspectedHost* made) { made->host.inspection.reset(); }, Verdict::kUnknown};

}  // namespace gdr::tools::doctor

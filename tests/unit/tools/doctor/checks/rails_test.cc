#include "tests/unit/tools/doctor/checks/inspected_machine.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using topology::Machine;

void take_ports_down(Machine* machine) {
  for (topology::Hca& hca : machine->hcas) {
    for (topology::Port& port : hca.ports) port.state = topology::Port::State::kDown;
  }
}

void add_warning(InspectedHost* made, FindingKind kind) {
  made->host.inspection->decision.findings.push_back({kind, Severity::kWarning, "", "odd", "x"});
}

TEST(Rails, EachCase_HasItsVerdict) {
  expect_worst<InspectedHost>(
      rails(),
      {{"even", [](InspectedHost*) {}, Verdict::kOk, "",
        "GPU0 mlx5_0:1, GPU1 mlx5_0:1, GPU2 mlx5_1:1"},
       {"missing HCA",
        [](InspectedHost* made) {
          made->set([](Machine* machine) { machine->hcas.erase(machine->hcas.begin()); });
        },
        Verdict::kWarning, "GPU0"},
       {"no usable port", [](InspectedHost* made) { made->set(take_ports_down); },
        Verdict::kFailure, "", "no rail"},
       {"warning about the topology",
        [](InspectedHost* made) { add_warning(made, FindingKind::kTopologyUnknown); },
        Verdict::kWarning, "", "odd", "x"},
       {"warning about a variable",
        [](InspectedHost* made) { add_warning(made, FindingKind::kBadValue); }, Verdict::kOk},
       kNoGpuCase,
       kNoHcaCase,
       kNoTopologyCase});
}

}  // namespace
}  // namespace gdr::tools::doctor

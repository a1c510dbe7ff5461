#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
namespace {

TEST(Numa, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "numa",
      {{"known", [](MadePci* made) { made->set(one_switch()); }, Verdict::kOk, "", "of 2"},
       {"unknown node of a device",
        [](MadePci* made) {
          topology::Machine machine = one_switch();
          machine.numa_nodes.push_back({-1, -1, ""});
          machine.hcas[0].at.numa = static_cast<int>(machine.numa_nodes.size()) - 1;
          made->set(machine);
        },
        Verdict::kWarning, "mlx5_0"},
       {"one node", [](MadePci* made) { made->set(topology::flat(1, 1)); }, Verdict::kOk, "",
        "one NUMA node"},
       {"fault of the source",
        [](MadePci* made) {
          made->set(topology::flat(1, 1));
          made->host.inspection->decision.findings = {
              {FindingKind::kTopologySource, Severity::kWarning, "", "odd", "x"}};
        },
        Verdict::kWarning, "", "odd"},
       {"one node without /sys",
        [](MadePci* made) {
          made->set(topology::flat(1, 1));
          std::filesystem::remove_all(made->host.path("/sys"));
        },
        Verdict::kUnknown},
       {"no nodes", [](MadePci* made) { made->machine().numa_nodes.clear(); }, Verdict::kUnknown},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor

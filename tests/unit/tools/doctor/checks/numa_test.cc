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

// numa_balancing and the nodes that are online, on a machine with a GPU and an HCA.
auto balancing(const char* mode, const char* nodes, bool has_pair = true) {
  return [=](MadeHost* made) {
    made->write("/proc/sys/kernel/numa_balancing", mode);
    made->write("/sys/devices/system/node/online", nodes);
    if (!has_pair) return;
    made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    made->add_gpus(1);
  };
}

TEST(NumaBalancing, EachCase_HasItsVerdict) {
  expect_worst<MadeHost>(
      "numa-balancing",
      {{"on, with two nodes", balancing("1\n", "0-1\n"), Verdict::kWarning, "", "", "",
        "sysctl -w kernel.numa_balancing=0"},
       {"on, with one node", balancing("1\n", "0\n"), Verdict::kOk},
       {"on, without a GPU", balancing("1\n", "0-1\n", false), Verdict::kOk},
       {"on, without /sys",
        without_sys([](MadeHost* made) { made->write("/proc/sys/kernel/numa_balancing", "1\n"); }),
        Verdict::kUnknown},
       {"tiering alone", balancing("2\n", "0-1\n"), Verdict::kOk},
       {"kernel without it",
        [](MadeHost* made) { made->write("/proc/sys/kernel/ostype", "Linux\n"); }, Verdict::kOk},
       {"without /proc", [](MadeHost*) {}, Verdict::kUnknown}});
}

}  // namespace
}  // namespace gdr::tools::doctor

#include "tests/unit/tools/doctor/facts/made_pci.h"

namespace gdr::tools::doctor {
namespace {

// Two nodes: CPUs 0 to 31, near GPU0, and 32 to 63.
topology::Machine two_nodes() {
  topology::Machine machine = one_switch();
  machine.numa_nodes[0].cpus = "00000000,ffffffff";
  machine.numa_nodes[1].cpus = "ffffffff,00000000";
  return machine;
}

// Lets the process run on these CPUs of the machine.
void allow(MadePci* made, const std::string& list, topology::Machine machine = two_nodes()) {
  made->set(std::move(machine));
  made->host.is_live = true;
  made->write("/proc/self/status", "Name:\tnccl-gdr\nCpus_allowed:\tff\nCpus_allowed_list:\t" +
                                       list + "\nThreads:\t1\n");
}

topology::Machine with_a_far_gpu() {
  topology::Machine machine = two_nodes();
  machine.gpus.push_back(
      topology::make_gpu(topology::bdf_of(0x81), topology::Attachment{-1, 1, 0}));
  return machine;
}

// What another machine's process may do is not looked at, and neither is NCCL_TOPO_FILE with more
// CPUs than this machine has.
TEST(Numa, EachCase_HasItsVerdict) {
  expect_worst<MadePci>(
      "numa",
      {{"known", [](MadePci* made) { made->set(two_nodes()); }, Verdict::kOk, "", "of 2"},
       {"unknown node of a device",
        [](MadePci* made) {
          topology::Machine machine = two_nodes();
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
       {"far from every GPU", [](MadePci* made) { allow(made, "32-63"); }, Verdict::kWarning, "",
        "CPUs 32-63"},
       {"near some GPU", [](MadePci* made) { allow(made, "31-40"); }, Verdict::kOk},
       {"on all CPUs",
        [](MadePci* made) {
          allow(made, "32-63");
          made->write("/sys/devices/system/cpu/online", "32-63\n");
        },
        Verdict::kOk},
       {"of another machine",
        [](MadePci* made) {
          allow(made, "32-63");
          made->host.is_live = false;
        },
        Verdict::kOk},
       {"no nodes", [](MadePci* made) { made->machine().numa_nodes.clear(); }, Verdict::kUnknown},
       {"no topology", [](MadePci* made) { made->host.inspection.reset(); }, Verdict::kUnknown}});
}

TEST(Numa, ProcessNearSomeGpus_NamesTheOthers) {
  MadePci made;
  allow(&made, "0-7", with_a_far_gpu());
  const Observations seen = seen_by("numa", made.host);
  EXPECT_EQ(seen.back().verdict, Verdict::kOk);
  EXPECT_THAT(seen.back().evidence, ::testing::HasSubstr("none of them near GPU1 (0000:81:00.0)"));
}

TEST(Numa, OddListOfCpus_IsNotLookedAt) {
  for (const char* list : {"", "x", "5-", "0-99999999999", "-1"}) {
    MadePci made;
    allow(&made, list);
    EXPECT_EQ(worst_of("numa", made.host).verdict, Verdict::kOk) << list;
  }
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
        "sysctl -w kernel.numa_balancing=0 / sysctl -w kernel.numa_balancing=1"},
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

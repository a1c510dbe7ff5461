#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_pci.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Two nodes: CPUs 0 to 31, near GPU0, and 32 to 63.
topology::Machine two_nodes() {
  topology::Machine machine = one_switch();
  machine.numa_nodes[0].cpus = "00000000,ffffffff";
  machine.numa_nodes[1].cpus = "ffffffff,00000000";
  return machine;
}

// Lets the process run on these CPUs.
void allow(MadePci* made, const std::string& list) {
  made->host.is_live = true;
  made->write("/proc/self/status", "Name:\tnccl-gdr\nCpus_allowed:\tff\nCpus_allowed_list:\t" +
                                       list + "\nThreads:\t1\n");
}

TEST(Numa, KnownNodes_AreOk) {
  MadePci made(two_nodes());
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kOk);
}

TEST(Numa, UnknownNode_IsAWarningThatNamesTheDevice) {
  topology::Machine machine = two_nodes();
  machine.numa_nodes.push_back({-1, -1, ""});
  machine.hcas[0].at.numa = static_cast<int>(machine.numa_nodes.size()) - 1;
  MadePci made(machine);
  const Observations seen = numa().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[0].subject, HasSubstr("mlx5_0"));
}

TEST(Numa, OneNode_IsOk) {
  MadePci made(topology::flat(1, 1));
  const Observations seen = numa().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
}

TEST(Numa, OneNodeWithoutSys_IsUnknown) {
  MadePci made(topology::flat(1, 1));
  std::filesystem::remove_all(made.host.path("/sys"));
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kUnknown);
}

TEST(Numa, ProcessBoundFarFromEveryGpu_IsAWarning) {
  MadePci made(two_nodes());
  allow(&made, "32-63");
  const Observations seen = numa().run(made.host);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].verdict, Verdict::kWarning);
  EXPECT_THAT(seen[1].evidence, HasSubstr("CPUs 32-63"));
}

TEST(Numa, ProcessNearSomeGpu_IsOk) {
  MadePci made(two_nodes());
  allow(&made, "31-40");
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kOk);
  topology::Machine machine = two_nodes();
  topology::Attachment far{-1, 1, 0};
  machine.gpus.push_back(topology::make_gpu(topology::bdf_of(0x81), far));
  made.set(machine);
  allow(&made, "0-7");
  const Observations seen = numa().run(made.host);
  EXPECT_EQ(seen.back().verdict, Verdict::kOk);
  EXPECT_THAT(seen.back().evidence, HasSubstr("none of them near GPU1 (0000:81:00.0)"));
}

// NCCL_TOPO_FILE may describe more CPUs than this machine has.
TEST(Numa, ProcessThatMayRunAnywhere_IsOk) {
  MadePci made(two_nodes());
  allow(&made, "32-63");
  made.write("/sys/devices/system/cpu/online", "32-63\n");
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kOk);
}

// The process is not one of the machine that a folder was copied from.
TEST(Numa, ProcessOfAnotherMachine_IsNotLookedAt) {
  MadePci made(two_nodes());
  allow(&made, "32-63");
  made.host.is_live = false;
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kOk);
}

TEST(Numa, OddListOfCpus_IsNotLookedAt) {
  for (const char* list : {"", "x", "5-", "0-99999999999", "-1"}) {
    MadePci made(two_nodes());
    allow(&made, list);
    EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kOk) << list;
  }
}

TEST(Numa, NoNodesOrNoTopology_IsUnknown) {
  MadePci made;
  made.machine().numa_nodes.clear();
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kUnknown);
  made.host.inspection.reset();
  EXPECT_EQ(verdict_of(numa(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

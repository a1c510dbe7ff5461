#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void add_pair(MadeHost* made) {
  made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  made->host.inspection.emplace();
  made->host.inspection->decision.machine.gpus.emplace_back();
}

TEST(NumaBalancing, OnWithTwoNodes_IsAWarningWithUndo) {
  MadeHost made;
  add_pair(&made);
  made.write("/proc/sys/kernel/numa_balancing", "1\n");
  made.write("/sys/devices/system/node/online", "0-1\n");
  const Observations seen = numa_balancing().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].command, "sysctl -w kernel.numa_balancing=0");
  EXPECT_EQ(seen[0].steps[0].undo, "sysctl -w kernel.numa_balancing=1");
}

TEST(NumaBalancing, OnWithOneNode_IsOk) {
  MadeHost made;
  add_pair(&made);
  made.write("/proc/sys/kernel/numa_balancing", "1\n");
  made.write("/sys/devices/system/node/online", "0\n");
  EXPECT_EQ(verdict_of(numa_balancing(), made.host), Verdict::kOk);
}

TEST(NumaBalancing, OnWithoutGpuOrHca_IsOk) {
  MadeHost made;
  made.write("/proc/sys/kernel/numa_balancing", "1\n");
  made.write("/sys/devices/system/node/online", "0-1\n");
  EXPECT_EQ(verdict_of(numa_balancing(), made.host), Verdict::kOk);
}

TEST(NumaBalancing, OnlyTiering_IsOk) {
  MadeHost made;
  add_pair(&made);
  made.write("/proc/sys/kernel/numa_balancing", "2\n");
  made.write("/sys/devices/system/node/online", "0-1\n");
  EXPECT_EQ(verdict_of(numa_balancing(), made.host), Verdict::kOk);
}

TEST(NumaBalancing, KernelWithoutIt_IsOk) {
  MadeHost made;
  made.write("/proc/sys/kernel/ostype", "Linux\n");
  EXPECT_EQ(verdict_of(numa_balancing(), made.host), Verdict::kOk);
}

TEST(NumaBalancing, WithoutProc_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(numa_balancing(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

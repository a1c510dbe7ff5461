#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kGroup[] = "/sys/fs/cgroup/job";

// A machine whose process is in the group "job" of cgroup v2.
void add_group(MadeHost* made) {
  made->write("/proc/self/cgroup", "0::/job\n");
  made->write(std::string(kGroup) + "/cgroup.procs", "1\n");
}

void write_limit(MadeHost* made, const std::string& file, const std::string& text) {
  made->write(std::string(kGroup) + "/" + file, text + "\n");
}

TEST(Cgroup, WithoutLimits_IsOk) {
  MadeHost made;
  add_group(&made);
  write_limit(&made, "pids.max", "max");
  write_limit(&made, "memory.max", "max");
  write_limit(&made, "rdma.max", "mlx5_0 hca_handle=max hca_object=max");
  const Observations seen = cgroup().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "no limit of tasks, memory or RDMA objects is set");
}

TEST(Cgroup, TasksLeft_DecideTheVerdict) {
  MadeHost made;
  add_group(&made);
  write_limit(&made, "pids.max", "1024");
  write_limit(&made, "pids.current", "24");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kOk);
  write_limit(&made, "pids.current", "900");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kWarning);
  write_limit(&made, "pids.current", "1023");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kFailure);
}

TEST(Cgroup, LimitOfTheGroupAbove_Counts) {
  MadeHost made;
  made.write("/proc/self/cgroup", "0::/slice/job\n");
  made.write("/sys/fs/cgroup/slice/pids.max", "100\n");
  made.write("/sys/fs/cgroup/slice/pids.current", "99\n");
  made.write("/sys/fs/cgroup/slice/job/pids.max", "max\n");
  const Observations seen = cgroup().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].evidence, "99 of 100 tasks are in use (/sys/fs/cgroup/slice/pids.max)");
}

TEST(Cgroup, RdmaObjects_DecideTheVerdict) {
  MadeHost made;
  add_group(&made);
  write_limit(&made, "rdma.max", "mlx5_0 hca_handle=max hca_object=100000");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kOk);
  write_limit(&made, "rdma.max", "mlx5_0 hca_handle=max hca_object=100");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kWarning);
  write_limit(&made, "rdma.current", "mlx5_0 hca_handle=1 hca_object=95");
  const Observations seen = cgroup().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].subject, "mlx5_0");
  EXPECT_EQ(seen[0].evidence, "95 of 100 hca_object are in use (/sys/fs/cgroup/job/rdma.max)");
}

TEST(Cgroup, NoHandleOfTheHca_IsAFailure) {
  MadeHost made;
  add_group(&made);
  write_limit(&made, "rdma.max", "mlx5_0 hca_handle=0 hca_object=max");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kFailure);
}

TEST(Cgroup, MemoryInUse_IsWithoutTheCacheOfFiles) {
  MadeHost made;
  add_group(&made);
  write_limit(&made, "memory.max", "1073741824");
  write_limit(&made, "memory.current", "1073000000");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kWarning);
  write_limit(&made, "memory.stat", "anon 5\ninactive_file 500000000\nactive_file 100000000");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kOk);
}

TEST(Cgroup, OfVersionOne_IsRead) {
  MadeHost made;
  made.write("/proc/self/cgroup", "8:pids:/docker/1\n4:memory:/docker/1\n");
  made.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  made.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  made.write("/sys/fs/cgroup/pids/pids.max", "50\n");
  made.write("/sys/fs/cgroup/pids/pids.current", "49\n");
  const Observations seen = cgroup().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
}

TEST(Cgroup, OddText_IsIgnored) {
  MadeHost made;
  made.write("/proc/self/cgroup", "::\nx\n0::job\n0::/../other\n0::/job\n");
  made.write("/sys/fs/cgroup/job/pids.max", "-1\n");
  made.write("/sys/fs/cgroup/job/rdma.max", "\n hca_object=\nmlx5_0\n");
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kOk);
}

TEST(Cgroup, WithoutProc_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(cgroup(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kEightMebibytes[] =
    "Max locked memory         8388608              8388608              bytes     \n";

void add_hca(MadeHost* made) { made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n"); }

TEST(MemoryLock, Unlimited_IsOk) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", "Max locked memory         unlimited            unlimited\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kOk);
}

TEST(MemoryLock, EightMebibytes_IsAFailureWithTheValue) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", kEightMebibytes);
  const Observations seen = memory_lock().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].evidence, "memlock of this process is 8192 KiB (/proc/self/limits)");
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].undo, "rm -f /etc/security/limits.d/90-nccl-gdr-memlock.conf");
}

TEST(MemoryLock, EightMebibytesWithoutAnHca_IsOk) {
  MadeHost made;
  made.write("/proc/self/limits", kEightMebibytes);
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kOk);
}

TEST(MemoryLock, HalfAGibibyte_IsAWarning) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", "Max locked memory  536870912  536870912  bytes\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kWarning);
}

TEST(MemoryLock, CapIpcLock_IsOk) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", kEightMebibytes);
  made.write("/proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000004000\n");
  made.write("/proc/self/uid_map", "         0          0 4294967295\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kOk);
}

TEST(MemoryLock, CapIpcLockOfAUserNamespace_DoesNotCount) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", kEightMebibytes);
  made.write("/proc/self/status", "CapEff:\t000001ffffffffff\n");
  made.write("/proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kFailure);
}

TEST(MemoryLock, HardLimitIsUnlimited_NamesUlimit) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", "Max locked memory  65536  unlimited  bytes\n");
  const Observations seen = memory_lock().run(made.host);
  EXPECT_EQ(seen[0].fix,
            "run \"ulimit -l unlimited\" in the job's script, which the hard limit allows");
  EXPECT_TRUE(seen[0].steps.empty());
}

TEST(MemoryLock, Fix_FitsWhatRunsTheProcess) {
  MadeHost made;
  add_hca(&made);
  made.write("/proc/self/limits", kEightMebibytes);
  const auto fix = [&] { return memory_lock().run(made.host)[0].fix; };
  EXPECT_NE(fix().find("/etc/security/limits.d"), std::string::npos);
  made.write("/proc/self/cgroup", "0::/system.slice/worker.service\n");
  EXPECT_EQ(fix(), "set LimitMEMLOCK=infinity for worker.service (systemctl edit) and restart it");
  made.host.process.in_slurm_job = true;
  EXPECT_NE(fix().find("PropagateResourceLimitsExcept=MEMLOCK"), std::string::npos);
  made.host.process.container = Container::kKubernetes;
  EXPECT_NE(fix().find("IPC_LOCK"), std::string::npos);
  made.host.process.container = Container::kDocker;
  EXPECT_EQ(fix(), "start the container with --ulimit memlock=-1:-1");
}

TEST(MemoryLock, WithoutProc_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kUnknown);
}

TEST(MemoryLock, OddText_IsUnknown) {
  MadeHost made;
  made.write("/proc/self/limits", "Max locked memory         many\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

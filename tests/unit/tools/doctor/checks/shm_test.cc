#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void add_gpu(MadeHost* made) {
  made->host.inspection.emplace();
  made->host.inspection->decision.machine.gpus.emplace_back();
}

TEST(Shm, Gibibytes_AreOk) {
  MadeHost made;
  add_gpu(&made);
  made.host.process.shm = FileSystemSize{24 * 1024 * kMiB, 23 * 1024 * kMiB};
  EXPECT_EQ(verdict_of(shm(), made.host), Verdict::kOk);
}

TEST(Shm, DefaultOfDocker_IsAWarningWithTheOption) {
  MadeHost made;
  add_gpu(&made);
  made.host.process.container = Container::kDocker;
  made.host.process.shm = FileSystemSize{64 * kMiB, 64 * kMiB};
  const Observations seen = shm().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].evidence, "/dev/shm has 64 MiB, 64 MiB of them free (statvfs), for 1 GPU");
  EXPECT_EQ(seen[0].fix, "start the container with --shm-size=1g or more, or with --ipc=host");
  EXPECT_TRUE(seen[0].steps.empty());
}

TEST(Shm, SmallAndFull_IsAFailureThatRemounts) {
  MadeHost made;
  add_gpu(&made);
  made.host.process.shm = FileSystemSize{64 * kMiB, 8 * kMiB};
  const Observations seen = shm().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  ASSERT_EQ(seen[0].steps.size(), 1u);
  EXPECT_EQ(seen[0].steps[0].undo, "mount -o remount,size=67108864 /dev/shm");
}

TEST(Shm, LargeAndFull_IsAFailureAboutItsFiles) {
  MadeHost made;
  add_gpu(&made);
  made.host.process.shm = FileSystemSize{4096 * kMiB, 0};
  const Observations seen = shm().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_TRUE(seen[0].steps.empty());
}

TEST(Shm, SmallWithoutAGpu_IsOk) {
  MadeHost made;
  made.host.process.shm = FileSystemSize{64 * kMiB, 64 * kMiB};
  EXPECT_EQ(verdict_of(shm(), made.host), Verdict::kOk);
}

TEST(Shm, OfAnotherMachine_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(shm(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

TEST(MemoryLock, Unlimited_IsOk) {
  MadeHost made;
  made.write("/proc/self/limits", "Max locked memory         unlimited            unlimited\n");
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kOk);
}

TEST(MemoryLock, EightMebibytes_IsAFailureWithTheValue) {
  MadeHost made;
  made.write("/proc/self/limits", "Max locked memory         8388608    8388608    bytes\n");
  const Observations seen = memory_lock().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[0].evidence, "memlock is 8192 KiB (/proc/self/limits)");
}

TEST(MemoryLock, WithoutProc_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(memory_lock(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

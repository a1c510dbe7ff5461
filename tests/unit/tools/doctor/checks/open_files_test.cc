#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

void allow(MadeHost* made, const std::string& soft, const std::string& hard) {
  made->write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  made->write("/proc/self/limits", "Max open files            " + soft + "  " + hard + "  files\n");
}

TEST(OpenFiles, UsualLimit_IsOk) {
  MadeHost made;
  allow(&made, "1024", "524288");
  EXPECT_EQ(verdict_of(open_files(), made.host), Verdict::kOk);
}

TEST(OpenFiles, BelowTheUsual_IsAWarningThatNamesUlimit) {
  MadeHost made;
  allow(&made, "512", "4096");
  const Observations seen = open_files().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].fix, "run \"ulimit -n $(ulimit -H -n)\" in the job's script");
}

TEST(OpenFiles, SixtyFour_IsAFailure) {
  MadeHost made;
  allow(&made, "64", "64");
  EXPECT_EQ(verdict_of(open_files(), made.host), Verdict::kFailure);
}

TEST(OpenFiles, WithoutAnHca_IsOk) {
  MadeHost made;
  made.write("/proc/self/limits", "Max open files            64  64  files\n");
  EXPECT_EQ(verdict_of(open_files(), made.host), Verdict::kOk);
}

TEST(OpenFiles, WithoutProc_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(open_files(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

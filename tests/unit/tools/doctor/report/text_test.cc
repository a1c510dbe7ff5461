#include <gmock/gmock.h>

#include <sstream>

#include "tests/unit/tools/doctor/report/made_report.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DoctorText, EveryVerdict_FailuresFirstAndSortedByCost) {
  EXPECT_EQ(to_text(full_report(), false),
            "failure  dear: stops jobs, or their use of RDMA\n"
            "         mlx5_1:1: is down\n"
            "           Fix: ip link set eth1 up\n"
            "         (unknown) mlx5_2:1: cannot be read\n"
            "           To see it: mount /sys\n"
            "         Why: Something goes wrong otherwise.\n"
            "\n"
            "failure  cheap: a risk\n"
            "         it may fail\n"
            "           Fix: raise it\n"
            "         Why: Something goes wrong otherwise.\n"
            "\n"
            "warning  doubtful: may cost bandwidth\n"
            "         line break \xef\xbf\xbd\n"
            "           Fix: set it to 1\n"
            "         Why: Something goes wrong otherwise.\n"
            "\n"
            "unknown  unseen: run it as root\n"
            "unknown  dear (mount /sys)\n"
            "ok       fine\n"
            "node17: of 5 checks, 2 failed, 1 with warnings, 1 ok, 1 unknown, 0 not applicable\n"
            "nccl-gdr doctor --all shows what each of them saw.\n");
}

TEST(DoctorText, AllFine_IsThreeLines) {
  const Report report = report_of({result_of("one", Cost::kRisk, {ok("", "a")}),
                                   result_of("two", Cost::kStops, {ok("", "b")})});
  EXPECT_EQ(to_text(report, false),
            "ok       one, two\n"
            "node17: of 2 checks, none failed, 0 with warnings, 2 ok, 0 unknown, 0 not applicable\n"
            "nccl-gdr doctor --all shows what each of them saw.\n");
}

TEST(DoctorText, All_HasWhatIsFine) {
  const std::string text = to_text(full_report(), true);
  EXPECT_THAT(text, HasSubstr("ok       fine\n         GPU0: it is \"fine\"\n"));
  EXPECT_THAT(text, HasSubstr("         (ok) mlx5_0:1: is well\n"));
  EXPECT_THAT(text, HasSubstr("unknown  unseen\n         mlx5_0:1: no \\ file\n"));
}

TEST(DoctorText, SameOfManySubjects_IsOneLine) {
  Observations observations;
  for (int i = 0; i < 8; ++i) {
    observations.push_back(failure("mlx5_" + std::to_string(i), "has MTU 1024", "set it to 4096"));
  }
  const Report report = report_of({result_of("mtu", Cost::kSlows, observations)});
  EXPECT_THAT(to_text(report, false),
              HasSubstr("         mlx5_0, mlx5_1, mlx5_2 and 5 more: has MTU 1024\n"
                        "           Fix: set it to 4096\n         Why"));
  EXPECT_THAT(to_text(report, true), HasSubstr("mlx5_6, mlx5_7: has MTU 1024\n"));
}

TEST(DoctorText, ManyThatDiffer_ShowsTheWorstAndHowToSeeTheOthers) {
  Observations observations;
  for (int i = 0; i < 8; ++i) {
    observations.push_back(warning("", "saw " + std::to_string(i), "fix " + std::to_string(i)));
  }
  observations.push_back(failure("", "the worst", "fix it"));
  const std::string text = to_text(report_of({result_of("x", Cost::kSlows, observations)}), false);
  EXPECT_THAT(text, HasSubstr("failure  x: costs bandwidth\n         the worst\n"));
  EXPECT_THAT(text, HasSubstr("         (warning) saw 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("saw 2")));
  EXPECT_THAT(text, HasSubstr("         and 6 more: nccl-gdr doctor --check x\n"));
}

TEST(DoctorText, SameFixOfSeveral_IsOneLineBelowThem) {
  const Report report = report_of(
      {result_of("links", Cost::kSlows,
                 {failure("GPU0", "has x8", "reseat it"), failure("GPU1", "has x4", "reseat it"),
                  failure("GPU2", "has 2.5 GT/s", "restart")})});
  EXPECT_THAT(to_text(report, false), HasSubstr("         GPU0: has x8\n         GPU1: has x4\n"
                                                "           Fix: reseat it\n"
                                                "         GPU2: has 2.5 GT/s\n"
                                                "           Fix: restart\n"));
}

TEST(DoctorText, LongLists_AreWrappedButFixesAreNot) {
  std::vector<CheckResult> results;
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("check-number-" + std::to_string(i));
  for (const std::string& name : names) {
    results.push_back(result_of(name.c_str(), Cost::kRisk, {ok("", "")}));
  }
  std::string long_text;
  for (int i = 0; i < 30; ++i) long_text += "a-word-of-many ";
  results.push_back(result_of("long", Cost::kRisk, {failure("", long_text, "run: " + long_text)}));
  std::istringstream lines(to_text(report_of(results), false));
  int fixes = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("Fix: ") == std::string::npos) {
      EXPECT_LE(line.size(), 100u) << line;
    } else {
      ++fixes;
      EXPECT_GT(line.size(), 400u);
    }
  }
  EXPECT_EQ(fixes, 1);
}

TEST(DoctorText, RootWithoutCapability_IsNotAdvisedToBecomeRoot) {
  Report report = report_of({result_of("a", Cost::kRisk, {unknown("", "", "run it as root")}),
                             result_of("b", Cost::kRisk, {unknown("", "", "run it as root")}),
                             result_of("c", Cost::kRisk, {unknown("", "", "mount /sys")})});
  EXPECT_THAT(to_text(report, false),
              HasSubstr("unknown  a, b: run it as root\nunknown  c (mount /sys)\n"));
  report.is_root = true;
  EXPECT_THAT(to_text(report, false), HasSubstr("unknown  a, b: run it as root of the host, as"));
}

}  // namespace
}  // namespace gdr::tools::doctor

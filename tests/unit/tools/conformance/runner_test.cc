#include "tools/conformance/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace gdr::tools {
namespace {
using testing::HasSubstr;
using End = RankOutcome::End;
using Verdict = CaseResult::Verdict;

const ConformanceCase kCase{"C99-test", "nothing", 2, nullptr};
const ConformanceCase kDeathCase{"C98-death", "nothing", 2, nullptr, 1};

RankOutcome outcome(int rank, End end, int code_or_signal, const char* report = "",
                    int64_t reported_at = 0) {
  RankOutcome made;
  made.rank = rank;
  made.end = end;
  made.exit_code = end == End::kExited ? code_or_signal : 0;
  made.signal = end == End::kKilled ? code_or_signal : 0;
  made.report = report;
  made.reported_at = reported_at;
  made.state = "inside test()";
  return made;
}

TEST(Judge, AllWell_IsOk) {
  EXPECT_EQ(judge(kCase, {outcome(0, End::kExited, 0), outcome(1, End::kExited, 0)}).verdict,
            Verdict::kOk);
}

TEST(Judge, TwoFailures_ReportsTheEarlier) {
  CaseResult result = judge(kCase, {outcome(0, End::kExited, 1, "consequence", 20),
                                    outcome(1, End::kExited, 1, "cause", 10)});
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_EQ(result.text, "cause");
}

TEST(Judge, Crash_IsReportedBeforeFailures) {
  CaseResult result = judge(
      kCase, {outcome(0, End::kExited, 1, "peer gone", 5), outcome(1, End::kKilled, SIGSEGV)});
  EXPECT_THAT(result.text, HasSubstr("crash: rank 1"));
  EXPECT_THAT(result.text, HasSubstr("inside test()"));
}

TEST(Judge, ExitFromInsideThePlugin_CountsAsCrash) {
  CaseResult result =
      judge(kCase, {outcome(0, End::kExited, 1, "peer gone", 5), outcome(1, End::kExited, 1)});
  EXPECT_EQ(result.text, "crash: rank 1 ended with exit code 1 while inside test()");
}

TEST(Judge, Hang_NamesTheCall) {
  CaseResult result = judge(kCase, {outcome(0, End::kExited, 0), outcome(1, End::kHung, 0)});
  EXPECT_EQ(result.text, "hang: rank 1 was inside test()");
}

TEST(Judge, PlannedDeath_IsNotAFailure) {
  EXPECT_EQ(
      judge(kDeathCase, {outcome(0, End::kExited, 0), outcome(1, End::kKilled, SIGKILL)}).verdict,
      Verdict::kOk);
}

TEST(Judge, DeathOfTheWrongKind_IsAFailure) {
  EXPECT_EQ(
      judge(kDeathCase, {outcome(0, End::kExited, 0), outcome(1, End::kKilled, SIGSEGV)}).verdict,
      Verdict::kFailed);
  EXPECT_EQ(
      judge(kDeathCase, {outcome(0, End::kKilled, SIGKILL), outcome(1, End::kExited, 0)}).verdict,
      Verdict::kFailed);
}

TEST(Judge, Skip_ReportsItsReason) {
  CaseResult result = judge(kCase, {outcome(0, End::kExited, kExitSkipped, "maxRecvs is 1", 1),
                                    outcome(1, End::kExited, kExitSkipped, "maxRecvs is 1", 2)});
  EXPECT_EQ(result.verdict, Verdict::kSkipped);
  EXPECT_EQ(result.text, "maxRecvs is 1");
}
}  // namespace
}  // namespace gdr::tools

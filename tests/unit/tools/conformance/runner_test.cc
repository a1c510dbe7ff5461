#include "tools/conformance/runner.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <set>

namespace gdr::tools {
namespace {
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

// The outcomes of both ranks, and what a case that ended so has seen.
struct Judged {
  RankOutcome first;
  RankOutcome second;
  Verdict verdict;
  const char* text;
};

const Judged kJudged[] = {
    {outcome(0, End::kExited, 0), outcome(1, End::kExited, 0), Verdict::kOk, ""},
    {outcome(0, End::kExited, 1, "consequence", 20), outcome(1, End::kExited, 1, "cause", 10),
     Verdict::kFailed, "cause"},
    {outcome(0, End::kExited, 1, "peer gone", 5), outcome(1, End::kKilled, SIGSEGV),
     Verdict::kFailed, "crash: rank 1 got signal 11 (Segmentation fault) while inside test()"},
    // The plugin, or a sanitizer in it, called exit.
    {outcome(0, End::kExited, 1, "peer gone", 5), outcome(1, End::kExited, 1), Verdict::kFailed,
     "crash: rank 1 ended with exit code 1 while inside test()"},
    {outcome(0, End::kExited, 0), outcome(1, End::kHung, 0), Verdict::kFailed,
     "hang: rank 1 was inside test()"},
    {outcome(0, End::kExited, kExitSkipped, "maxRecvs is 1", 1),
     outcome(1, End::kExited, kExitSkipped, "maxRecvs is 1", 2), Verdict::kSkipped,
     "maxRecvs is 1"},
};

TEST(Judge, OutcomesOfBothRanks_GiveTheVerdictAndTheLikeliestCause) {
  for (const Judged& one : kJudged) {
    const CaseResult result = judge(kCase, {one.first, one.second});
    EXPECT_EQ(result.verdict, one.verdict) << one.text;
    EXPECT_EQ(result.text, one.text);
  }
}

TEST(Judge, PlannedDeath_IsAFailureOnlyOfTheWrongKind) {
  auto verdict = [](const RankOutcome& first, const RankOutcome& second) {
    return judge(kDeathCase, {first, second}).verdict;
  };
  const RankOutcome well = outcome(0, End::kExited, 0);
  EXPECT_EQ(verdict(well, outcome(1, End::kKilled, SIGKILL)), Verdict::kOk);
  EXPECT_EQ(verdict(well, outcome(1, End::kKilled, SIGSEGV)), Verdict::kFailed);
  EXPECT_EQ(verdict(outcome(0, End::kKilled, SIGKILL), outcome(1, End::kExited, 0)),
            Verdict::kFailed);
}

TEST(AllCases, Ids_AreUniqueAndWellFormed) {
  std::set<std::string> numbers;
  for (const ConformanceCase& one : all_cases()) {
    const std::string id = one.id;
    EXPECT_TRUE(numbers.insert(id.substr(0, 3)).second) << id;
    EXPECT_EQ(id[0], 'C');
    EXPECT_EQ(id[3], '-');
    EXPECT_GE(one.ranks, 1) << id;
    EXPECT_LT(one.killed_rank, one.ranks) << id;
    EXPECT_FALSE(std::string(one.clause).empty()) << id;
  }
  EXPECT_GE(numbers.size(), 57u);
}
}  // namespace
}  // namespace gdr::tools

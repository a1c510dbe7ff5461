#include "tools/doctor/report/report.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/unit/tools/doctor/facts/made_host.h"
#include "tests/unit/tools/doctor/report/made_report.h"
#include "tools/common/output.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(CheckResult, MixedObservations_VerdictIsTheWorst) {
  EXPECT_EQ(result_of("a", Cost::kRisk, {ok("", ""), unknown("", "", "")}).verdict(),
            Verdict::kUnknown);
  EXPECT_EQ(result_of("a", Cost::kRisk, {warning("", "", ""), unknown("", "", "")}).verdict(),
            Verdict::kWarning);
  EXPECT_EQ(
      result_of("a", Cost::kRisk, {ok("", ""), failure("", "", ""), warning("", "", "")}).verdict(),
      Verdict::kFailure);
}

TEST(Report, RunChecks_OneThrowsAndOneReturnsNothing_TheOthersAreThere) {
  const auto throws = [](const Host&) -> Observations { throw std::runtime_error("odd file"); };
  const auto throws_a_number = [](const Host&) -> Observations { throw 3; };
  const auto returns_nothing = [](const Host&) -> Observations { return {}; };
  const auto is_fine = [](const Host&) -> Observations { return {ok("", "fine")}; };
  const auto check = [](const char* name, Observations (*run)(const Host&)) {
    return Check{.name = name, .looks_at = "", .why = "", .cost = Cost::kRisk, .run = run};
  };
  MadeHost made;
  made.write("/proc/sys/kernel/hostname", "node3\x1b[2J\n");
  const Report report = run_checks({check("throws", throws), check("number", throws_a_number),
                                    check("empty", returns_nothing), check("fine", is_fine)},
                                   made.host);
  EXPECT_EQ(report.host, topo::clean_text("node3\x1b[2J"));
  EXPECT_EQ(report.host.find('\x1b'), std::string::npos);
  ASSERT_EQ(report.results.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(report.results[i].verdict(), Verdict::kUnknown) << i;
  EXPECT_THAT(report.results[0].observations[0].evidence, HasSubstr("odd file"));
  EXPECT_EQ(report.results[3].verdict(), Verdict::kOk);
}

TEST(Report, ExitCode_ByVerdict) {
  EXPECT_EQ(exit_code_of(report_of({result_of("a", Cost::kRisk, {ok("", "")})})), kExitOk);
  EXPECT_EQ(exit_code_of(report_of({result_of("a", Cost::kStops, {warning("", "", "")})})),
            kExitOk);
  EXPECT_EQ(exit_code_of(full_report()), kExitFailed);
  EXPECT_EQ(exit_code_of(report_of({result_of("a", Cost::kStops, {unknown("", "", "")})})),
            kExitCouldNotRun);
  EXPECT_EQ(exit_code_of(report_of({result_of("a", Cost::kStops, {unknown("", "", "")}),
                                    result_of("b", Cost::kStops, {ok("", "")})})),
            kExitOk);
  const CheckResult hcas = result_of("rdma-devices", Cost::kStops, {unknown("", "", "")});
  const CheckResult gpus = result_of("nvidia-driver", Cost::kStops, {unknown("", "", "")});
  const CheckResult limit = result_of("memory-lock", Cost::kRisk, {warning("", "", "")});
  EXPECT_EQ(exit_code_of(report_of({hcas, limit})), kExitOk);
  EXPECT_EQ(exit_code_of(report_of({hcas, gpus, limit})), kExitCouldNotRun);
}

}  // namespace
}  // namespace gdr::tools::doctor

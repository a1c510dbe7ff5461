// The text format of Prometheus, version 0.0.4.
#include <gmock/gmock.h>

#include "tests/fakes/temp_folder.h"
#include "tests/metrics/page_check.h"
#include "tests/unit/tools/doctor/report/made_report.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(DoctorPrometheus, EveryVerdict_HasItsNumber) {
  const std::string text = to_prometheus(full_report());
  for (const char* line :
       {"nccl_gdr_doctor_check_status{check=\"fine\",cost=\"stops\"} 0\n",
        "nccl_gdr_doctor_check_status{check=\"unseen\",cost=\"halves\"} -1\n",
        "nccl_gdr_doctor_check_status{check=\"doubtful\",cost=\"slows\"} 1\n",
        "nccl_gdr_doctor_check_status{check=\"dear\",cost=\"stops\"} 2\n",
        "nccl_gdr_doctor_findings{check=\"dear\",kind=\"dear\"} 1\n",
        "nccl_gdr_doctor_checks{verdict=\"failure\"} 2\n", "nccl_gdr_doctor_exit_status 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// HELP and TYPE once for each metric, its samples in one group, no series twice.
TEST(DoctorPrometheus, Collector_CanReadItWithTheCountersOfPorts) {
  Report report = full_report();
  report.counters.ports = {{"mlx5_0", 2, "", {{"link_downed", 17}, {"symbol_error", 0}}},
                           {"a\"b\\c\n\xff", 1, "", {{"link_downed", ~uint64_t{0}}}}};
  const std::string text = to_prometheus(report);
  for (const char* line :
       {"# TYPE nccl_gdr_doctor_port_events_total counter\n",
        "_total{device=\"mlx5_0\",port=\"2\",counter=\"symbol_error\"} 0\n",
        "_total{device=\"a\\\"b\\\\c\xef\xbf\xbd\xef\xbf\xbd\",port=\"1\",counter=\"link_downed\"} "
        "18446744073709551615\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  const TempFolder folder;
  const PageCheck check = check_page(folder, text);
  if (check.status == kPageParserMissing) GTEST_SKIP() << check.objections;
  EXPECT_EQ(check.status, 0) << check.objections;
}

}  // namespace
}  // namespace gdr::tools::doctor

// The text format of Prometheus, version 0.0.4.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/fakes/temp_folder.h"
#include "tests/metrics/page_check.h"
#include "tests/unit/tools/doctor/made_report.h"

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

// Each metric has one HELP and one TYPE before its samples, which are in one group, and no series
// is there twice.
TEST(DoctorPrometheus, Format_IsTheExpositionFormat) {
  const std::regex comment("# (HELP|TYPE) (nccl_gdr_[a-z_]+) (.+)");
  const std::regex sample(
      "((nccl_gdr_[a-z_]+)(\\{[a-z]+=\"[^\"\\\\]*\"(,[a-z]+=\"[^\"\\\\]*\")*\\})?)"
      " -?[0-9]+");
  std::istringstream lines(to_prometheus(full_report()));
  std::map<std::string, int> comments;
  std::set<std::string> series;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (std::regex_match(line, parts, comment)) {
      current = parts[2];
      ++comments[current];
      EXPECT_TRUE(parts[1] == "HELP" || parts[3] == "gauge") << line;
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, parts, sample)) << line;
    EXPECT_EQ(parts[2], current) << line;
    EXPECT_TRUE(series.insert(parts[1]).second) << line;
  }
  EXPECT_EQ(comments.size(), 5u);
  for (const auto& [name, count] : comments) EXPECT_EQ(count, 2) << name;
}

TEST(DoctorPrometheus, Collector_CanReadIt) {
  const TempFolder folder;
  const PageCheck check = check_page(folder, to_prometheus(full_report()));
  if (check.status == kPageParserMissing) GTEST_SKIP() << check.objections;
  EXPECT_EQ(check.status, 0) << check.objections;
}

}  // namespace
}  // namespace gdr::tools::doctor

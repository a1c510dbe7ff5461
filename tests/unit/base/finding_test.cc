#include "base/finding.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace gdr {
namespace {

std::vector<std::pair<log::Level, std::string>>& logged() {
  static std::vector<std::pair<log::Level, std::string>> lines;
  return lines;
}

void record(log::Level level, unsigned long, const char*, int, const char* text) {
  logged().emplace_back(level, text);
}

TEST(FindingTest, ToString_AllParts_NamesSubjectAndFix) {
  Finding finding{FindingKind::kBadValue, Severity::kWarning, "mlx5_0:1",
                  "the GID at index 5 is empty", "set NCCL_IB_GID_INDEX=3"};
  EXPECT_EQ(to_string(finding),
            "mlx5_0:1: the GID at index 5 is empty. Fix: set NCCL_IB_GID_INDEX=3");
  EXPECT_EQ(to_string(Finding{FindingKind::kBadValue, Severity::kInfo, "", "read from sysfs", ""}),
            "read from sysfs");
}

TEST(FindingTest, SplitFix_TakesToStringBack) {
  const std::string text = "the GID is empty. Fix: set it. Fix: is not looked for twice";
  const TextAndFix parts = split_fix(text);
  EXPECT_EQ(parts.text, "the GID is empty");
  EXPECT_EQ(parts.fix, "set it. Fix: is not looked for twice");
  EXPECT_EQ(to_string(parts), text);
  EXPECT_EQ(split_fix("read from sysfs").text, "read from sysfs");
  EXPECT_EQ(split_fix("read from sysfs").fix, "");
}

TEST(FindingTest, LogFindings_EachSeverity_HasItsLevelAndItsKind) {
  logged().clear();
  log::set_sink(record);
  log_findings({{FindingKind::kGdrLevel, Severity::kInfo, "", "one", ""},
                {FindingKind::kSlowLink, Severity::kWarning, "mlx5_0:1", "two", "look"},
                {FindingKind::kBadValue, Severity::kError, "", "three", ""}},
               log::kInit);
  log::set_sink(nullptr);
  ASSERT_EQ(logged().size(), 3u);
  EXPECT_EQ(logged()[0].first, log::Level::kInfo);
  EXPECT_EQ(logged()[0].second, "NET/GDR [gdr-level] : one");
  EXPECT_EQ(logged()[1].first, log::Level::kWarn);
  EXPECT_EQ(logged()[1].second, "NET/GDR [slow-link] : mlx5_0:1: two. Fix: look");
  EXPECT_EQ(logged()[2].first, log::Level::kWarn);
}

}  // namespace
}  // namespace gdr

// doctor --burn-in over the software HCA, which is as fast as the machine happens to be: what is
// measured is read, and not judged here.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace gdr::tools {
namespace {

using ::testing::HasSubstr;

// The output of a command, without what it writes to standard error.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> part{};
  while (const size_t length = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), length);
  }
  pclose(pipe);
  return text;
}

TEST(DoctorBurnIn, Local_MeasuresEveryRail) {
  const auto json = nlohmann::json::parse(
      output_of(NCCL_GDR_TOOL " doctor --burn-in local --burn-in-shares HOST=1 --json"));
  ASSERT_EQ(json["checks"].size(), 1u);
  EXPECT_EQ(json["checks"][0]["name"], "burn-in");
  const auto& seen = json["checks"][0]["observations"];
  ASSERT_EQ(seen.size(), 2u);
  for (const auto& one : seen) {
    EXPECT_EQ(one["verdict"], "unknown");  // the software HCA has no rate
    EXPECT_THAT(one["evidence"].get<std::string>(), HasSubstr("Gb/s, "));
  }
  EXPECT_EQ(seen[1]["subject"], "rail 1 softhca1:1 host memory");
}

}  // namespace
}  // namespace gdr::tools

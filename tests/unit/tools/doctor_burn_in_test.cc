// doctor --burn-in over the software HCA, which is as fast as the machine happens to be: what is
// measured is read, and not judged here.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace gdr::tools {
namespace {

using ::testing::ContainsRegex;
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

// What `doctor --burn-in local` sees of every rail.
nlohmann::json observations(const std::string& options) {
  const auto json = nlohmann::json::parse(
      output_of(NCCL_GDR_TOOL " doctor --burn-in local --burn-in-shares HOST=1 --json " + options));
  EXPECT_EQ(json["checks"].size(), 1u);
  EXPECT_EQ(json["checks"][0]["name"], "burn-in");
  return json["checks"][0]["observations"];
}

void expect_both_rails(const nlohmann::json& seen, const std::string& measured_by) {
  ASSERT_EQ(seen.size(), 2u);
  for (const auto& one : seen) {
    EXPECT_EQ(one["verdict"], "unknown");  // the software HCA has no rate
    EXPECT_THAT(one["evidence"].get<std::string>(),
                ContainsRegex("^[0-9.]+ Gb/s, [0-9.]+ us by " + measured_by));
  }
  EXPECT_EQ(seen[1]["subject"], "rail 1 softhca1:1 host memory");
}

TEST(DoctorBurnIn, Perf_MeasuresEveryRail) {
  expect_both_rails(observations("--burn-in-with perf"), "nccl-gdr perf");
}

// The programs of the package perftest. Built without a sanitizer, they cannot load a software HCA
// that has one.
class DoctorBurnInByPerftest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "perftest cannot load a software HCA that has a sanitizer";
#endif
  }
};

TEST_F(DoctorBurnInByPerftest, Perftest_MeasuresEveryRail) {
  expect_both_rails(observations("--burn-in-with perftest"), "ib_write_bw [0-9.]+");
}

// A second port, of RoCE, where perftest needs the index of a GID.
TEST_F(DoctorBurnInByPerftest, PerftestOnTheSecondPort_TakesTheGidOfThePlugin) {
  setenv("SOFTHCA_CONFIG",
         R"({"devices":[{"ports":2,"port_settings":[{},{"link_layer":"Ethernet"}]}]})", 1);
  setenv("NCCL_IB_HCA", "=softhca0:2", 1);
  const auto seen = observations("--burn-in-with perftest");
  unsetenv("SOFTHCA_CONFIG");
  unsetenv("NCCL_IB_HCA");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["subject"], "rail 0 softhca0:2 host memory");
  EXPECT_THAT(seen[0]["evidence"].get<std::string>(), HasSubstr("by ib_write_bw"));
}

// An InfiniBand port whose packets need a GRH, without which none is acknowledged.
TEST_F(DoctorBurnInByPerftest, PortThatAsksForGrhs_GetsThem) {
  setenv("SOFTHCA_CONFIG", R"({"devices":[{"grh_required":true}]})", 1);
  const auto seen = observations("--burn-in-with perftest");
  unsetenv("SOFTHCA_CONFIG");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_THAT(seen[0]["evidence"].get<std::string>(), HasSubstr("by ib_write_bw"));
}

// A transfer that fails on the way.
TEST_F(DoctorBurnInByPerftest, LostAcknowledgement_IsAFailure) {
  setenv("SOFTHCA_CONFIG",
         R"({"devices":[{}],"faults":[{"kind":"ack_lost","device":"softhca0","after_ops":50}]})",
         1);
  const auto seen = observations("--burn-in-with perftest");
  unsetenv("SOFTHCA_CONFIG");
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0]["verdict"], "failure");
  EXPECT_THAT(seen[0]["evidence"].get<std::string>(), HasSubstr("Failed status 12"));
}

TEST(DoctorBurnIn, AutoWithoutPerftest_TakesPerf) {
  setenv("PATH", "/no/such/folder", 1);
  expect_both_rails(observations(""), "nccl-gdr perf");
}

}  // namespace
}  // namespace gdr::tools

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

// What `doctor --burn-in` sees of every rail.
nlohmann::json observations(const std::string& options, const std::string& peer = "local") {
  const auto json = nlohmann::json::parse(output_of(NCCL_GDR_TOOL " doctor --burn-in " + peer +
                                                    " --burn-in-shares HOST=1 --json " + options));
  EXPECT_EQ(json["checks"].size(), 1u);
  EXPECT_EQ(json["checks"][0]["name"], "burn-in");
  return json["checks"][0]["observations"];
}

// With another configuration of the software HCA.
nlohmann::json observations_over(const std::string& softhca, const std::string& options,
                                 const std::string& peer = "local") {
  setenv("SOFTHCA_CONFIG", softhca.c_str(), 1);
  const auto seen = observations(options, peer);
  unsetenv("SOFTHCA_CONFIG");
  return seen;
}

// A verdict would compare with the rate of a port, which means nothing for the software HCA.
void expect_measured(const nlohmann::json& one, const std::string& subject,
                     const std::string& measured_by) {
  EXPECT_EQ(one["verdict"], "unknown");
  EXPECT_EQ(one["subject"], subject);
  EXPECT_THAT(one["evidence"].get<std::string>(),
              ContainsRegex("^[0-9.]+ Gb/s, [0-9.]+ us by " + measured_by));
}

void expect_both_rails(const nlohmann::json& seen, const std::string& measured_by) {
  ASSERT_EQ(seen.size(), 2u);
  expect_measured(seen[0], "rail 0 softhca0:1 to rail 1 softhca1:1, host memory", measured_by);
  expect_measured(seen[1], "rail 1 softhca1:1 to rail 0 softhca0:1, host memory", measured_by);
}

TEST(DoctorBurnIn, Perf_MeasuresEveryRail) {
  expect_both_rails(observations("--burn-in-with perf"), "nccl-gdr perf");
}

TEST(DoctorBurnIn, Loopback_MeasuresEveryRailByItself) {
  const auto seen = observations("--burn-in-with perf", "loopback");
  ASSERT_EQ(seen.size(), 2u);
  expect_measured(seen[1], "rail 1 softhca1:1 to itself, host memory", "nccl-gdr perf");
}

TEST(DoctorBurnIn, RailThatIsDown_IsPassedByAndNamed) {
  const auto seen = observations_over(
      R"({"devices":[{},{},{}],"faults":[{"kind":"port_down","device":"softhca1"}]})",
      "--burn-in-with perf");
  ASSERT_EQ(seen.size(), 3u);
  expect_measured(seen[0], "rail 0 softhca0:1 to rail 2 softhca2:1, host memory", "nccl-gdr perf");
  expect_measured(seen[1], "rail 2 softhca2:1 to rail 0 softhca0:1, host memory", "nccl-gdr perf");
  EXPECT_EQ(seen[2]["subject"], "rail 1 softhca1:1");
  EXPECT_EQ(seen[2]["verdict"], "failure");
  EXPECT_EQ(seen[2]["evidence"], "the port is down");
}

TEST(DoctorBurnIn, OneRail_SendsToItselfAndSaysSo) {
  const auto seen = observations_over(R"({"devices":[{}]})", "--burn-in-with perf");
  ASSERT_EQ(seen.size(), 1u);
  expect_measured(seen[0], "rail 0 softhca0:1 to itself, host memory", "nccl-gdr perf");
  EXPECT_THAT(seen[0]["evidence"].get<std::string>(),
              HasSubstr("as this machine has no other usable rail"));
}

// Rails 0 and 2 are in one subnet of InfiniBand, rail 1 in another.
TEST(DoctorBurnIn, RailsOfTwoSubnets_AreMeasuredWithinThem) {
  const auto seen = observations_over(
      R"({"devices":[{"subnet_prefix":"fec0000000000001"},{"subnet_prefix":"fec0000000000002"},
                     {"subnet_prefix":"fec0000000000001"}]})",
      "--burn-in-with perf");
  ASSERT_EQ(seen.size(), 3u);
  expect_measured(seen[0], "rail 0 softhca0:1 to rail 2 softhca2:1, host memory", "nccl-gdr perf");
  expect_measured(seen[1], "rail 1 softhca1:1 to itself, host memory", "nccl-gdr perf");
  EXPECT_THAT(seen[1]["evidence"].get<std::string>(),
              HasSubstr("(InfiniBand, subnet fec0000000000002)"));
  expect_measured(seen[2], "rail 2 softhca2:1 to rail 0 softhca0:1, host memory", "nccl-gdr perf");
}

// RoCE with an IPv4 address here and an IPv6 one there: neither reaches the other.
TEST(DoctorBurnIn, RailsThatDoNotReachEachOther_AreUnknownAndMeasuredByThemselves) {
  const auto seen = observations_over(
      R"({"devices":[{"link_layer":"Ethernet"},{"link_layer":"Ethernet","gids":["fd00::1"]}]})",
      "--burn-in-with perf");
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0]["verdict"], "unknown");
  EXPECT_EQ(seen[0]["subject"], "rail 0 softhca0:1 to rail 1 softhca1:1");
  EXPECT_THAT(seen[0]["evidence"].get<std::string>(),
              ContainsRegex("^no message arrived: .*differ in RoCE version or address family"));
  EXPECT_THAT(seen[0].dump(), HasSubstr("where the fabric keeps rails apart"));
  expect_measured(seen[1], "rail 0 softhca0:1 to itself, host memory", "nccl-gdr perf");
  EXPECT_EQ(seen[2]["subject"], "rail 1 softhca1:1 to rail 0 softhca0:1");
  expect_measured(seen[3], "rail 1 softhca1:1 to itself, host memory", "nccl-gdr perf");
}

// Rail 1 reaches neither of the two that reach each other, so that the fabric does not keep rails
// apart.
TEST(DoctorBurnIn, RailThatReachesNoOther_IsAFailure) {
  const auto seen = observations_over(
      R"({"devices":[{},{},{}],
          "faults":[{"kind":"modify_qp_refused","device":"softhca1","count":0,"errno":22}]})",
      "--burn-in-with perf");
  std::vector<std::string> failed;
  for (const auto& one : seen) {
    const std::string subject = one["subject"];
    if (subject.find("to itself") != std::string::npos) continue;
    if (one["verdict"] != "failure") continue;
    failed.push_back(subject);
    EXPECT_THAT(one["evidence"].get<std::string>(),
                HasSubstr("and none reaches rail 1 softhca1:1"));
  }
  EXPECT_THAT(failed, ::testing::ElementsAre("rail 0 softhca0:1 to rail 1 softhca1:1",
                                             "rail 1 softhca1:1 to rail 2 softhca2:1"));
}

// The probe ends before the port of rail 1 goes down, so that the rails do reach each other. With
// failover, the standby rail of the connection would be measured in its place.
TEST(DoctorBurnIn, LinkThatFailsUnderLoad_IsAFailureAndNotReplacedByAnotherRail) {
  setenv("NCCL_IB_TIMEOUT", "14", 1);
  const auto seen = observations_over(
      R"({"devices":[{},{},{}],
          "faults":[{"kind":"port_down","device":"softhca1","after_ops":100}]})",
      "--burn-in-with perf");
  unsetenv("NCCL_IB_TIMEOUT");
  ASSERT_EQ(seen.size(), 3u);
  for (size_t i : {0, 1}) {
    EXPECT_EQ(seen[i]["verdict"], "failure") << seen[i];
    EXPECT_THAT(seen[i]["evidence"].get<std::string>(), HasSubstr("softhca1:1"));
  }
  expect_measured(seen[2], "rail 2 softhca2:1 to rail 0 softhca0:1, host memory", "nccl-gdr perf");
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

// Rail 1 sends, but its messages are never acknowledged, not even by itself. The pair alone would
// not show whose fault it is.
TEST_F(DoctorBurnInByPerftest, RailThatNothingGetsAwayFrom_FailsByItself) {
  const auto seen =
      observations_over(R"({"devices":[{},{}],"faults":[{"kind":"ack_lost","device":"softhca1"}]})",
                        "--burn-in-with perftest");
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0]["subject"], "rail 0 softhca0:1 to rail 1 softhca1:1");
  EXPECT_EQ(seen[0]["verdict"], "unknown");
  expect_measured(seen[1], "rail 0 softhca0:1 to itself, host memory", "ib_write_bw [0-9.]+");
  EXPECT_EQ(seen[2]["verdict"], "unknown");
  EXPECT_EQ(seen[3]["subject"], "rail 1 softhca1:1 to itself, host memory");
  EXPECT_EQ(seen[3]["verdict"], "failure");
}

// One InfiniBand port asks for GRHs: both are then addressed by a GID.
TEST_F(DoctorBurnInByPerftest, OnePortOfTwoThatAsksForGrhs_GetsThem) {
  const auto seen =
      observations_over(R"({"devices":[{"grh_required":true},{}]})", "--burn-in-with perftest");
  expect_both_rails(seen, "ib_write_bw [0-9.]+");
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
  EXPECT_EQ(seen[0]["subject"], "rail 0 softhca0:2 to itself, host memory");
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

#include "tools/doctor/burn_in_perf.h"

#include <gmock/gmock.h>

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BurnInCase gpu_case() {
  BurnInCase one;
  one.hca = "mlx5_0";
  one.gpu = 0;
  return one;
}

TEST(PerfArguments, Remote_HasTheAddressAndTheRank) {
  const BurnInPeer peer{.is_local = false, .address = "10.0.0.1", .port = 29500, .rank = 1};
  EXPECT_THAT(perf_arguments(gpu_case(), peer),
              ElementsAre("perf", "sendrecv", "--dev", "0", "--memory", "cuda:0", "-b", "8", "-e",
                          "4M", "-f", "524288", "--timeout", "60", "--json", "-", "--root",
                          "10.0.0.1:29501", "--rank", "1"));
}

TEST(PerfArguments, LocalHostMemory_HasNoAddress) {
  BurnInCase one;
  one.device = 3;
  EXPECT_THAT(perf_arguments(one, {}),
              ElementsAre("perf", "sendrecv", "--dev", "3", "--memory", "host", "-b", "8", "-e",
                          "4M", "-f", "524288", "--timeout", "60", "--json", "-"));
}

TEST(PerfResult, Json_GivesTheLargestSizeAndTheLatencyOfTheSmallest) {
  const std::string json =
      R"({"devices": [{"name": "mlx5_0:1"}],
          "bandwidth": [{"average_mib_s": 1.0}, {"average_mib_s": 1000.0}],
          "latency": [{"typical_us": 1.5}, {"typical_us": 90.0}]})";
  const Result<BurnInMeasurement> measured = parse_perf_result(gpu_case(), json);
  ASSERT_TRUE(measured.has_value());
  EXPECT_NEAR(measured->gbits, 8.388608, 1e-6);
  EXPECT_EQ(measured->latency_us, 1.5);
  EXPECT_EQ(measured->by, "nccl-gdr perf");
}

TEST(PerfResult, OtherDeviceOrNoResult_IsAnError) {
  const std::string other = R"({"devices": [{"name": "mlx5_7"}], "bandwidth": [], "latency": []})";
  const Result<BurnInMeasurement> measured = parse_perf_result(gpu_case(), other);
  ASSERT_FALSE(measured.has_value());
  EXPECT_THAT(measured.error().text, HasSubstr("is mlx5_7 and not mlx5_0"));
  for (const char* bad : {"", "{}", R"({"devices": [{"name": "mlx5_0"}], "bandwidth": []})"}) {
    EXPECT_FALSE(parse_perf_result(gpu_case(), bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace gdr::tools::doctor

#include "tools/doctor/burn_in_perf.h"

#include <gmock/gmock.h>

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BurnInCase gpu_case() {
  BurnInCase one;
  one.hca = "mlx5_0";
  one.gpu = 3;  // of the machine
  one.gpu_address = "0000:1a:00.0";
  one.cuda_number = 0;
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
      R"json({"devices": [{"name": "mlx5_0:1"}],
          "ranks": [{"memory": "cuda:0 (0000:1A:00.0)"}, {"memory": "cuda:0 (0000:5D:00.0)"}],
          "bandwidth": [{"average_mib_s": 1.0}, {"average_mib_s": 1000.0}],
          "latency": [{"typical_us": 1.5}, {"typical_us": 90.0}]})json";
  const Result<BurnInMeasurement> measured = parse_perf_result(gpu_case(), json);
  ASSERT_TRUE(measured.has_value());
  EXPECT_NEAR(measured->gbits, 8.388608, 1e-6);
  EXPECT_EQ(measured->latency_us, 1.5);
  EXPECT_EQ(measured->by, "nccl-gdr perf");
}

TEST(PerfResult, OtherGpu_IsAnError) {
  for (const char* memory : {"cuda:0 (0000:5D:00.0)", "cuda:0 ()", "cuda:0", "host"}) {
    const std::string json =
        std::string(R"({"devices": [{"name": "mlx5_0"}], "ranks": [{"memory": ")") + memory +
        R"("}], "bandwidth": [{"average_mib_s": 1.0}], "latency": [{"typical_us": 1.5}]})";
    const Result<BurnInMeasurement> measured = parse_perf_result(gpu_case(), json);
    ASSERT_FALSE(measured.has_value()) << memory;
    EXPECT_THAT(measured.error().text, HasSubstr("and not of the GPU 0000:1a:00.0"));
  }
}

TEST(PerfError, UnfinishedPerf_SaysWhoWasFirst) {
  EXPECT_THAT(unfinished_perf(false, "").text,
              HasSubstr("nccl-gdr perf did not end within 180 s. Fix: look at"));
  const std::string text = unfinished_perf(true, "nccl-gdr: no peer. Fix: wait\n").text;
  EXPECT_THAT(text, HasSubstr("was ended 10 s after the other machine's end of it: no peer. Fix:"));
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

#include "tools/doctor/burn_in_perf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BurnInCase gpu_case() {
  BurnInCase one;
  one.end.hca = "mlx5_0";
  one.end.gpu = 3;  // of the machine
  one.end.gpu_address = "0000:1a:00.0";
  one.end.cuda_number = 0;
  return one;
}

TEST(PerfArguments, Remote_HasTheAddressAndTheRank) {
  const BurnInPeer peer{.is_local = false, .address = "10.0.0.1", .port = 29500, .rank = 1};
  EXPECT_THAT(perf_arguments(gpu_case(), peer),
              ElementsAre("perf", "sendrecv", "--dev", "0", "--memory", "cuda:0", "-b", "8", "-e",
                          "4M", "--seconds", "2", "--timeout", "60", "--json", "-", "--peak",
                          "--root", "10.0.0.1:29501", "--rank", "1"));
}

// From GPU 0 of CUDA at rail 0 to GPU 5 at rail 2.
BurnInCase pair_case() {
  BurnInCase one = gpu_case();
  one.receiver = BurnInEnd{};
  one.receiver->hca = "mlx5_2";
  one.receiver->device = 2;
  one.receiver->gpu = 5;
  one.receiver->gpu_address = "0000:5d:00.0";
  one.receiver->cuda_number = 5;
  return one;
}

std::string argument_after(const std::vector<std::string>& arguments, const std::string& option) {
  const auto found = std::find(arguments.begin(), arguments.end(), option);
  return found == arguments.end() || found + 1 == arguments.end() ? "" : found[1];
}

TEST(PerfArguments, TwoRails_AreSenderAndReceiver) {
  BurnInCase one = pair_case();
  EXPECT_EQ(argument_after(perf_arguments(one, {}), "--dev"), "0,2");
  EXPECT_EQ(argument_after(perf_arguments(one, {}), "--memory"), "cuda:0,cuda:5");
  EXPECT_EQ(argument_after(perf_probe_arguments(one), "--dev"), "0,2");
  EXPECT_EQ(argument_after(perf_probe_arguments(one), "--memory"), "host");
  one.end.gpu = {};
  EXPECT_EQ(argument_after(perf_arguments(one, {}), "--memory"), "host,cuda:5");
  one.receiver->gpu = {};
  EXPECT_EQ(argument_after(perf_arguments(one, {}), "--memory"), "host");
}

// The report of perf, of which rank 1 was on that device and in that GPU's memory.
std::string pair_json(int device, const std::string& gpu_address) {
  return fmt::format(
      R"json({{"devices": [{{"name": "mlx5_0"}}, {{"name": "mlx5_1"}}, {{"name": "mlx5_2"}}],
          "ranks": [{{"device": 0, "memory": "cuda:0 (0000:1A:00.0)"}},
                    {{"device": {}, "memory": "cuda:5 ({})"}}],
          "bandwidth": [{{"average_mib_s": 1.0}}], "latency": [{{"typical_us": 1.5}}]}})json",
      device, gpu_address);
}

TEST(PerfResult, TwoRails_AreBothVerified) {
  const auto error_of = [](const BurnInCase& one, const std::string& json) {
    const auto measured = parse_perf_result(one, json);
    return measured ? "" : measured.error().text;
  };
  EXPECT_EQ(error_of(pair_case(), pair_json(2, "0000:5D:00.0")), "");
  EXPECT_THAT(error_of(pair_case(), pair_json(0, "0000:5D:00.0")),
              HasSubstr("rank 1 used device 0 and not 2"));
  EXPECT_THAT(error_of(pair_case(), pair_json(2, "0000:1A:00.0")),
              HasSubstr("and not of the GPU 0000:5d:00.0"));
  BurnInCase other = pair_case();
  other.receiver->hca = "mlx5_7";
  EXPECT_THAT(error_of(other, pair_json(2, "0000:5D:00.0")), HasSubstr("is mlx5_2 and not mlx5_7"));
}

TEST(PerfArguments, LocalHostMemory_HasNoAddress) {
  BurnInCase one;
  one.end.device = 3;
  EXPECT_THAT(perf_arguments(one, {}),
              ElementsAre("perf", "sendrecv", "--dev", "3", "--memory", "host", "-b", "8", "-e",
                          "4M", "--seconds", "2", "--timeout", "60", "--json", "-", "--peak"));
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

// What the plugin logs of the failed call names the cause, which perf does not know.
TEST(PerfError, FailureInThePluginsLog_IsTheCause) {
  const std::string printed =
      "n:1:1 [0] plugin/init.cc:9 NCCL WARN NET/GDR : NCCL_X is unknown. Fix: unset it\n"
      "n:1:1 [0] plugin/net.cc:60 NCCL WARN NET/GDR : accept: the GIDs differ. Fix: set them\n"
      "n:2:2 [1] a.cc:1 NCCL WARN NET/GDR : n mlx5_0:1 lid 1 <-> n mlx5_1:1 lid 2: lost\n"
      "nccl-gdr: rank 0: accept from rank 1 on device 0: invalid usage (5)\n";
  EXPECT_THAT(unfinished_perf(true, printed).text, HasSubstr(": accept: the GIDs differ. Fix: "));
  EXPECT_THAT(unfinished_perf(true, printed.substr(printed.find("n:2"))).text,
              HasSubstr("mlx5_1:1 lid 2: lost. Fix:"));
  EXPECT_THAT(unfinished_perf(true, printed.substr(printed.find("nccl-gdr"))).text,
              HasSubstr("rank 0: accept from rank 1"));
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

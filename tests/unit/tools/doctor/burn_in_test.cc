#include "tools/doctor/burn_in.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/common/exit_codes.h"
#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const BurnInShares& standard() { return default_burn_in_shares(); }

// Eight GPUs under four switches, each switch with an HCA of 400 Gb/s.
void inspect_hgx(MadeHost* made) {
  topo::InspectOptions options;
  options.from = std::string(GDR_TOPOLOGIES) + "/nccl-hgx-4nic.xml";
  made->host.inspection = topo::inspect(options).value();
}

BurnInCase case_of(double port_gbits, double share) {
  return {.subject = "rail 0 mlx5_0:1 GPU0 (PIX)",
          .hca = "mlx5_0",
          .device = 0,
          .gpu = 0,
          .path = "PIX",
          .port_gbits = port_gbits,
          .share = share};
}

TEST(BurnInCases, EveryRail_HasHostMemoryAndItsGpus) {
  MadeHost made;
  inspect_hgx(&made);
  const std::vector<BurnInCase> cases = burn_in_cases(made.host.inspection->decision, standard());
  ASSERT_EQ(cases.size(), 12u);
  EXPECT_EQ(cases[0].subject, "rail 0 mlx5_0:1 host memory");
  EXPECT_EQ(cases[0].share, 0.9);
  EXPECT_EQ(cases[1].subject, "rail 0 mlx5_0:1 GPU0 (PIX)");
  EXPECT_EQ(cases[2].gpu, 1u);
  EXPECT_EQ(cases[11].device, 3);
  EXPECT_EQ(cases[11].gpu, 7u);
  EXPECT_GT(cases[11].port_gbits, 0);
}

TEST(BurnInCases, RailThatIsDown_IsLeftOutAndTakesNoDevice) {
  MadeHost made;
  inspect_hgx(&made);
  made.host.inspection->decision.plan.rails[0].usable = false;
  for (topology::GpuRails& gpu : made.host.inspection->decision.plan.gpus) {
    if (!gpu.rails.empty() && gpu.rails[0] == 0) gpu.rails.clear();
  }
  const std::vector<BurnInCase> cases = burn_in_cases(made.host.inspection->decision, standard());
  ASSERT_EQ(cases.size(), 9u);
  EXPECT_EQ(cases[0].device, 0);
  EXPECT_THAT(cases[0].subject, HasSubstr("rail 1 "));
}

TEST(BurnInShares, Text_OverridesTheDefault) {
  const Result<BurnInShares> shares = parse_burn_in_shares("PIX=95,SYS=40.5");
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->at("PIX"), 0.95);
  EXPECT_EQ(shares->at("SYS"), 0.405);
  EXPECT_EQ(shares->at("PHB"), 0.8);
  EXPECT_EQ(parse_burn_in_shares("").value(), standard());
  for (const char* wrong : {"PIX", "PIX=", "NEAR=90", "PIX=0", "PIX=101", "PIX=9x", "PIX=nan"}) {
    const Result<BurnInShares> bad = parse_burn_in_shares(wrong);
    ASSERT_FALSE(bad.has_value()) << wrong;
    EXPECT_THAT(bad.error().text, HasSubstr(wrong));
  }
}

TEST(BurnInJudgement, ShareOfTheRate_DecidesTheVerdict) {
  EXPECT_EQ(judge_burn_in(case_of(400, 0.9), {360, 2}).verdict, Verdict::kOk);
  const Observation slow = judge_burn_in(case_of(400, 0.9), {180, 2.04});
  EXPECT_EQ(slow.verdict, Verdict::kFailure);
  EXPECT_EQ(slow.evidence,
            "180.0 Gb/s, 2.0 us: 45 % of the port's 400 Gb/s, and 90 % are expected (PIX)");
  EXPECT_EQ(judge_burn_in(case_of(0, 0.9), {180, 2}).verdict, Verdict::kUnknown);
}

TEST(BurnInPeer, Texts_AreResolved) {
  EXPECT_TRUE(parse_burn_in_peer("local")->is_local);
  const Result<BurnInPeer> own = parse_burn_in_peer("127.0.0.1:4000");
  ASSERT_TRUE(own.has_value());
  EXPECT_FALSE(own->is_local);
  EXPECT_EQ(own->rank, 0);
  EXPECT_EQ(own->port, 4000);
  // An address for documentation (RFC 5737), which no machine has.
  EXPECT_EQ(parse_burn_in_peer("192.0.2.1")->rank, 1);
  for (const char* wrong : {"127.0.0.1:", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:70000", ""}) {
    EXPECT_FALSE(parse_burn_in_peer(wrong).has_value()) << wrong;
  }
}

TEST(BurnInArguments, Remote_TakesAnotherPortForEachMeasurement) {
  const BurnInPeer peer{.is_local = false, .address = "10.0.0.1", .port = 29500, .rank = 1};
  EXPECT_THAT(burn_in_arguments(case_of(400, 0.9), peer, 3, "f"),
              ElementsAre("perf", "sendrecv", "--dev", "0", "--memory", "cuda:0", "-b", "8", "-e",
                          "4M", "-f", "524288", "--timeout", "60", "--json", "f", "--root",
                          "10.0.0.1:29503", "--rank", "1"));
}

TEST(BurnInResult, Json_GivesTheLargestSizeAndTheLatencyOfTheSmallest) {
  const std::string json =
      R"({"devices": [{"name": "mlx5_0:1"}],
          "bandwidth": [{"average_mib_s": 1.0}, {"average_mib_s": 1000.0}],
          "latency": [{"typical_us": 1.5}, {"typical_us": 90.0}]})";
  const Result<BurnInMeasurement> measured = parse_burn_in(case_of(400, 0.9), json);
  ASSERT_TRUE(measured.has_value());
  EXPECT_NEAR(measured->gbits, 8.388608, 1e-6);
  EXPECT_EQ(measured->latency_us, 1.5);
}

TEST(BurnInResult, OtherDeviceOrNoResult_IsAnError) {
  const std::string other = R"({"devices": [{"name": "mlx5_7"}], "bandwidth": [], "latency": []})";
  const Result<BurnInMeasurement> measured = parse_burn_in(case_of(400, 0.9), other);
  ASSERT_FALSE(measured.has_value());
  EXPECT_THAT(measured.error().text, HasSubstr("is mlx5_7 and not mlx5_0"));
  for (const char* bad : {"", "{}", R"({"devices": [{"name": "mlx5_0"}], "bandwidth": []})"}) {
    EXPECT_FALSE(parse_burn_in(case_of(400, 0.9), bad).has_value()) << bad;
  }
}

TEST(BurnIn, Report_HasAVerdictForEachMeasurement) {
  MadeHost made;
  inspect_hgx(&made);
  const auto measure = [](const BurnInCase& one, size_t number) -> Result<BurnInMeasurement> {
    if (number == 1) return fail(Code::kSystem, "no CUDA");
    if (number == 2) return fail(Code::kRemote, "wrong data");
    return BurnInMeasurement{number == 3 ? 1.0 : one.port_gbits, 2.0};
  };
  const Report report = burn_in(made.host, standard(), true, measure);
  const Observations& seen = report.results.at(0).observations;
  ASSERT_EQ(seen.size(), 12u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[1].verdict, Verdict::kUnknown);
  EXPECT_EQ(seen[2].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[3].verdict, Verdict::kFailure);
  EXPECT_EQ(exit_code_of(report), kExitFailed);
}

TEST(BurnIn, SoftwareHca_IsUnknown) {
  MadeHost made;
  inspect_hgx(&made);
  made.host.libraries.verbs = {{.file = "/softhca/libibverbs.so.1",
                                .found_by = "LD_LIBRARY_PATH",
                                .version = "",
                                .is_software_hca = true}};
  const auto measure = [](const BurnInCase&, size_t) -> Result<BurnInMeasurement> {
    return BurnInMeasurement{1.0, 2.0};
  };
  const Report report = burn_in(made.host, standard(), true, measure);
  for (const Observation& one : report.results.at(0).observations) {
    EXPECT_EQ(one.verdict, Verdict::kUnknown);
    EXPECT_THAT(one.evidence, ::testing::HasSubstr("no rate of its own"));
  }
  EXPECT_EQ(exit_code_of(report), kExitCouldNotRun);
}

TEST(BurnIn, OtherMachineDoesNotAnswer_EndsIt) {
  MadeHost made;
  inspect_hgx(&made);
  int measured = 0;
  const auto measure = [&](const BurnInCase&, size_t number) -> Result<BurnInMeasurement> {
    ++measured;
    if (number == 1) return fail(Code::kInvalidUsage, "the other machine does not answer");
    return BurnInMeasurement{400, 2};
  };
  const Report report = burn_in(made.host, standard(), false, measure);
  EXPECT_EQ(measured, 2);
  EXPECT_EQ(report.results.at(0).observations.at(1).verdict, Verdict::kUnknown);
}

TEST(BurnIn, WithoutRails_CouldNotLook) {
  MadeHost made;
  const auto measure = [](const BurnInCase&, size_t) -> Result<BurnInMeasurement> {
    ADD_FAILURE() << "there is nothing to measure";
    return BurnInMeasurement{};
  };
  EXPECT_EQ(exit_code_of(burn_in(made.host, standard(), true, measure)), kExitCouldNotRun);
}

}  // namespace
}  // namespace gdr::tools::doctor

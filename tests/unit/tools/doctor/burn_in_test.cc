#include "tools/doctor/burn_in.h"

#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/common/exit_codes.h"
#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

const BurnInShares& standard() { return default_burn_in_shares(); }

// Eight GPUs under four switches, each switch with an HCA of 400 Gb/s.
void inspect_hgx(MadeHost* made) {
  topo::InspectOptions options;
  options.from = std::string(GDR_TOPOLOGIES) + "/nccl-hgx-4nic.xml";
  made->host.inspection = topo::inspect(options).value();
}

std::vector<BurnInCase> cases_of(const MadeHost& made) {
  return burn_in_cases(made.host.inspection->decision, standard(), made.host.gpus);
}

BurnInCase case_of(double port_gbits, double share) {
  return {.subject = "rail 0 mlx5_0:1 GPU0 (PIX)",
          .hca = "mlx5_0",
          .port = 1,
          .device = 0,
          .gpu = 0,
          .gpu_address = "0000:1a:00.0",
          .cuda_number = 0,
          .path = "PIX",
          .port_gbits = port_gbits,
          .share = share,
          .cpus = {}};
}

TEST(BurnInCases, EveryRail_HasHostMemoryAndItsGpus) {
  MadeHost made;
  inspect_hgx(&made);
  // CUDA_VISIBLE_DEVICES=1
  made.host.gpus.gpus[made.host.inspection->decision.machine.gpus[1].bdf].cuda_number = 0;
  const std::vector<BurnInCase> cases = cases_of(made);
  ASSERT_EQ(cases.size(), 12u);
  EXPECT_EQ(cases[2].cuda_number, 0);
  EXPECT_FALSE(cases[1].cuda_number.has_value());
  EXPECT_EQ(cases[0].subject, "rail 0 mlx5_0:1 host memory");
  EXPECT_EQ(cases[0].share, 0.9);
  EXPECT_EQ(cases[1].subject, "rail 0 mlx5_0:1 GPU0 (PIX)");
  EXPECT_EQ(cases[2].gpu, 1u);
  EXPECT_EQ(cases[2].gpu_address, made.host.inspection->decision.machine.gpus[1].bdf.to_string());
  EXPECT_FALSE(cases[0].gpu.has_value());
  EXPECT_EQ(cases[0].gpu_address, "");
  EXPECT_GE(cases[0].cpus.size(), 2u);
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
  const std::vector<BurnInCase> cases = cases_of(made);
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
  EXPECT_EQ(judge_burn_in(case_of(400, 0.9), {360, 2, "nccl-gdr perf"}).verdict, Verdict::kOk);
  const Observation slow = judge_burn_in(case_of(400, 0.9), {180, 2.04, "ib_write_bw 6.06"});
  EXPECT_EQ(slow.verdict, Verdict::kFailure);
  EXPECT_EQ(slow.evidence,
            "180.0 Gb/s, 2.0 us by ib_write_bw 6.06: 45 % of the port's 400 Gb/s, and 90 % are "
            "expected (PIX)");
  EXPECT_EQ(judge_burn_in(case_of(0, 0.9), {180, 2, ""}).verdict, Verdict::kUnknown);
}

TEST(BurnInJudgement, LatencyThatWasNotMeasured_IsUnknown) {
  const Observation seen = judge_burn_in(case_of(400, 0.9), {399, 0, "ib_write_bw 6.20"});
  EXPECT_EQ(seen.verdict, Verdict::kOk);
  EXPECT_THAT(seen.evidence, HasSubstr("399.0 Gb/s, latency unknown by ib_write_bw 6.20"));
}

TEST(BurnIn, Report_HasAVerdictForEachMeasurement) {
  MadeHost made;
  inspect_hgx(&made);
  int number = 0;
  const auto measure = [&](const BurnInCase& one) -> Result<BurnInMeasurement> {
    switch (number++) {
      case 1:
        return fail(Code::kSystem, "no CUDA");
      case 2:
        return fail(Code::kRemote, "wrong data");
      case 3:
        return BurnInMeasurement{1.0, 2.0, "a fake"};
      case 4:
        return fail(Code::kSystem, "no memory. Fix: raise the limit");
      default:
        return BurnInMeasurement{one.port_gbits, 2.0, "a fake"};
    }
  };
  const Report report = burn_in(made.host, cases_of(made), measure);
  const Observations& seen = report.results.at(0).observations;
  ASSERT_EQ(seen.size(), 12u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[1].verdict, Verdict::kUnknown);
  EXPECT_EQ(seen[2].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[2].evidence, "wrong data");
  EXPECT_EQ(seen[3].verdict, Verdict::kFailure);
  EXPECT_EQ(seen[4].evidence, "it was not measured: no memory");
  EXPECT_EQ(seen[4].needs, "raise the limit");
  EXPECT_EQ(exit_code_of(report), kExitFailed);
}

TEST(BurnIn, SoftwareHca_IsUnknown) {
  MadeHost made;
  inspect_hgx(&made);
  made.host.libraries.verbs = {{.file = "/softhca/libibverbs.so.1",
                                .found_by = "LD_LIBRARY_PATH",
                                .version = "",
                                .is_software_hca = true}};
  const auto measure = [](const BurnInCase&) -> Result<BurnInMeasurement> {
    return BurnInMeasurement{1.0, 2.0, "ib_write_bw 6.06"};
  };
  const Report report = burn_in(made.host, cases_of(made), measure);
  for (const Observation& one : report.results.at(0).observations) {
    EXPECT_EQ(one.verdict, Verdict::kUnknown);
    EXPECT_EQ(one.evidence,
              "1.0 Gb/s, 2.0 us by ib_write_bw 6.06; the software HCA has no rate of its own");
  }
  EXPECT_EQ(exit_code_of(report), kExitCouldNotRun);
}

TEST(BurnIn, OtherMachineDoesNotAnswer_EndsIt) {
  MadeHost made;
  inspect_hgx(&made);
  int measured = 0;
  const auto measure = [&](const BurnInCase&) -> Result<BurnInMeasurement> {
    if (++measured == 2) return fail(Code::kInvalidUsage, "the other machine has left");
    return BurnInMeasurement{400, 2, "a fake"};
  };
  const Report report = burn_in(made.host, cases_of(made), measure);
  EXPECT_EQ(measured, 2);
  const Observations& seen = report.results.at(0).observations;
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[1].verdict, Verdict::kUnknown);
  EXPECT_EQ(seen[2].evidence, "the other rails were not measured");
}

TEST(BurnIn, WithoutRails_CouldNotLook) {
  MadeHost made;
  const auto measure = [](const BurnInCase&) -> Result<BurnInMeasurement> {
    ADD_FAILURE() << "there is nothing to measure";
    return BurnInMeasurement{};
  };
  EXPECT_EQ(exit_code_of(burn_in(made.host, {}, measure)), kExitCouldNotRun);
}

}  // namespace
}  // namespace gdr::tools::doctor

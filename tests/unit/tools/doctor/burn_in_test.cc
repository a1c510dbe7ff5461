#include "tools/doctor/burn_in.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/common/exit_codes.h"
#include "tools/topo/inspect.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Eight GPUs under four switches, each switch with an HCA of 400 Gb/s.
void inspect_hgx(MadeHost* made) {
  topo::InspectOptions options;
  options.from = std::string(GDR_TOPOLOGIES) + "/nccl-hgx-4nic.xml";
  made->host.inspection = topo::inspect(options).value();
}

std::vector<BurnInCase> cases_of(const MadeHost& made) {
  return cases_with_other_machine(made.host, default_burn_in_shares());
}

BurnInCase case_of(double port_gbits, double share) {
  BurnInCase one;
  one.subject = "rail 0 mlx5_0:1 GPU0 (PIX)";
  one.end.rail = "rail 0 mlx5_0:1";
  one.end.hca = "mlx5_0";
  one.end.gpu = 0;
  one.end.path = "PIX";
  one.end.port_gbits = port_gbits;
  one.end.share = share;
  return one;
}

// To a port of another rate, whose memory has another path.
BurnInCase pair_of(double sender_gbits, double receiver_gbits) {
  BurnInCase one = case_of(sender_gbits, 0.9);
  one.receiver = one.end;
  one.receiver->rail = "rail 1 mlx5_1:1";
  one.receiver->hca = "mlx5_1";
  one.receiver->path = "SYS";
  one.receiver->port_gbits = receiver_gbits;
  one.receiver->share = 0.3;
  return one;
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

TEST(BurnInJudgement, TwoRails_AreJudgedByTheSlowerPortAndTheWorsePath) {
  const Observation good = judge_burn_in(pair_of(400, 200), {60, 2, "a fake"});
  EXPECT_EQ(good.verdict, Verdict::kOk);
  EXPECT_EQ(
      good.evidence,
      "60.0 Gb/s, 2.0 us by a fake: 30 % of mlx5_1:1's 200 Gb/s, and 30 % are expected (SYS)");
  EXPECT_THAT(judge_burn_in(pair_of(100, 200), {60, 2, ""}).evidence,
              HasSubstr("60 % of mlx5_0:1's 100 Gb/s"));
  const Observation slow = judge_burn_in(pair_of(400, 400), {60, 2, ""});
  EXPECT_EQ(slow.verdict, Verdict::kFailure);
  EXPECT_THAT(slow.evidence,
              HasSubstr("15 % of each port's 400 Gb/s, and 30 % are expected (SYS)"));
  EXPECT_THAT(slow.fix, HasSubstr("--burn-in loopback"));
}

TEST(BurnInJudgement, TwoRailsWithAnUnknownRate_AreUnknown) {
  for (const BurnInCase& one : {pair_of(0, 400), pair_of(400, 0), pair_of(0, 0)}) {
    EXPECT_EQ(judge_burn_in(one, {380, 2, ""}).verdict, Verdict::kUnknown);
  }
  EXPECT_THAT(judge_burn_in(pair_of(400, 0), {380, 2, ""}).evidence,
              HasSubstr("the rate of mlx5_1:1 is unknown"));
}

// A ring of four rails with two GPUs each, where rails of these numbers do not reach the next one.
class BurnInRing : public ::testing::Test {
 protected:
  Report report_without(const std::set<int>& unreached) {
    MadeHost made;
    inspect_hgx(&made);
    const auto measure = [&](const BurnInCase& one) -> Result<BurnInMeasurement> {
      BurnInMeasurement good{one.end.port_gbits, 2.0, "a fake"};
      if (!one.receiver) by_themselves_.push_back(one.subject);
      if (one.receiver && unreached.contains(one.end.device)) {
        good.unreached = "RETRY_EXC_ERR. Fix: look at the links";
      }
      return good;
    };
    return burn_in(made.host, cases_of_ring(made.host, default_burn_in_shares()), measure);
  }

  // The pairs that no message got over.
  Observations pairs_without(const std::set<int>& unreached) {
    Observations pairs;
    const Report report = report_without(unreached);
    for (const Observation& one : report.results.at(0).observations) {
      if (one.evidence.starts_with("no message arrived: ")) pairs.push_back(one);
    }
    EXPECT_EQ(pairs.size(), unreached.size());
    return pairs;
  }

  std::vector<std::string> by_themselves_;
};

TEST_F(BurnInRing, FabricThatKeepsRailsApart_IsUnknownAndTheSendersAreMeasuredByThemselves) {
  const Report report = report_without({0, 1, 2, 3});
  ASSERT_EQ(by_themselves_.size(), 12u);
  by_themselves_.resize(3);
  EXPECT_THAT(by_themselves_, ::testing::ElementsAre("rail 0 mlx5_0:1 to itself, host memory",
                                                     "rail 0 mlx5_0:1 GPU0 (PIX) to itself",
                                                     "rail 0 mlx5_0:1 GPU1 (PIX) to itself"));
  const Observations& seen = report.results.at(0).observations;
  ASSERT_EQ(seen.size(), 4u * (1 + 3));
  EXPECT_EQ(seen[0].verdict, Verdict::kUnknown);
  EXPECT_EQ(seen[0].subject, "rail 0 mlx5_0:1 to rail 1 mlx5_1:1");
  EXPECT_EQ(seen[0].evidence, "no message arrived: RETRY_EXC_ERR");
  EXPECT_THAT(seen[0].needs, HasSubstr("nothing is wrong where the fabric keeps rails apart"));
  EXPECT_THAT(seen[0].needs, HasSubstr("look at the links"));
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].verdict, i % 4 == 0 ? Verdict::kUnknown : Verdict::kOk) << i;
  }
  EXPECT_EQ(exit_code_of(report), kExitOk);
}

TEST_F(BurnInRing, PairThatOtherPairsConnect_IsAFailure) {
  const Observations pairs = pairs_without({0});
  EXPECT_EQ(pairs.at(0).verdict, Verdict::kFailure);
  EXPECT_EQ(pairs.at(0).cost, Cost::kStops);
  EXPECT_EQ(pairs.at(0).subject, "rail 0 mlx5_0:1 to rail 1 mlx5_1:1");
  EXPECT_EQ(pairs.at(0).evidence,
            "no message arrived: RETRY_EXC_ERR; the fabric connects the two, as other pairs of "
            "this run show");
  EXPECT_EQ(pairs.at(0).fix, "look at the links (on RoCE, see docs/doctor.md, Burn-in)");
  EXPECT_EQ(pairs.at(0).needs, "");
}

TEST_F(BurnInRing, RailThatReachesNoOther_IsNamedAsTheFailure) {
  for (const Observation& pair : pairs_without({0, 1})) {
    EXPECT_EQ(pair.verdict, Verdict::kFailure);
    EXPECT_THAT(pair.evidence,
                ::testing::EndsWith("; other rails of this fabric reach each other, and none "
                                    "reaches rail 1 mlx5_1:1"));
  }
  EXPECT_EQ(exit_code_of(report_without({0, 1})), kExitFailed);
}

// Rails 1 and 2 are on one switch, rails 3 and 0 on another.
TEST_F(BurnInRing, TwoGroupsOfRails_AreUnknown) {
  for (const Observation& pair : pairs_without({0, 2})) {
    EXPECT_EQ(pair.verdict, Verdict::kUnknown);
    EXPECT_THAT(pair.needs, HasSubstr("nothing is wrong where the fabric keeps rails apart"));
  }
}

TEST(BurnIn, TransferThatFailsBetweenTwoRails_IsAFailure) {
  MadeHost made;
  const auto measure = [](const BurnInCase&) -> Result<BurnInMeasurement> {
    return fail(Code::kRemote, "wrong data");
  };
  const Report report = burn_in(made.host, {pair_of(400, 400)}, measure);
  EXPECT_EQ(report.verdict(), Verdict::kFailure);
  EXPECT_THAT(report.results.at(0).observations.at(0).fix, HasSubstr("--burn-in loopback"));
  EXPECT_EQ(report.results.at(0).cost(), Cost::kStops);
}

TEST(BurnIn, RailThatIsDown_IsAFailure) {
  MadeHost made;
  inspect_hgx(&made);
  topology::Rail& down = made.host.inspection->decision.plan.rails[1];
  down.usable = false;
  down.why_not = "the port is down";
  const auto measure = [](const BurnInCase& one) -> Result<BurnInMeasurement> {
    return BurnInMeasurement{one.end.port_gbits, 2.0, "a fake"};
  };
  const Report report = burn_in(made.host, cases_of(made), measure);
  const Observation& last = report.results.at(0).observations.back();
  EXPECT_EQ(last.verdict, Verdict::kFailure);
  EXPECT_EQ(last.subject, "rail 1 mlx5_1:1");
  EXPECT_EQ(last.evidence, "the port is down");
  EXPECT_EQ(exit_code_of(report), kExitFailed);
}

TEST(BurnIn, Note_FollowsTheResult) {
  MadeHost made;
  BurnInCase alone = case_of(400, 0.9);
  alone.note = "without the cable";
  const auto measure = [](const BurnInCase&) -> Result<BurnInMeasurement> {
    return BurnInMeasurement{400, 2, "a fake"};
  };
  const Report report = burn_in(made.host, {alone}, measure);
  EXPECT_THAT(report.results.at(0).observations.at(0).evidence,
              ::testing::EndsWith("(PIX); without the cable"));
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
        return BurnInMeasurement{one.end.port_gbits, 2.0, "a fake"};
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

#include "tools/doctor/burn_in_choice.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace gdr::tools::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BurnInOffer offer(const std::string& perftest, BurnInWith with = BurnInWith::kAuto) {
  return {.with = with,
          .perftest = perftest,
          .lacks = perftest.empty()
                       ? "ib_write_bw is not in PATH. Fix: install the package perftest"
                       : "",
          .perftest_gpus = false,
          .paths = "hgg"};
}

TEST(BurnInChoice, BothHavePerftest_MeasuresHostMemoryWithIt) {
  const auto choice = choose_burn_in(offer("6.06"), offer("6.06"));
  ASSERT_TRUE(choice.has_value());
  EXPECT_TRUE(choice->perftest_for_host);
  EXPECT_FALSE(choice->perftest_for_gpus);
}

TEST(BurnInChoice, GpuMemory_NeedsCudaOnBothMachines) {
  BurnInOffer cuda = offer("6.20");
  cuda.perftest_gpus = true;
  EXPECT_TRUE(choose_burn_in(cuda, cuda)->perftest_for_gpus);
  EXPECT_FALSE(choose_burn_in(cuda, offer("6.20"))->perftest_for_gpus);
  EXPECT_FALSE(choose_burn_in(offer("6.20"), cuda)->perftest_for_gpus);
}

TEST(BurnInChoice, PerftestOnOneMachineOnlyOrInOtherVersions_IsNotUsed) {
  EXPECT_FALSE(choose_burn_in(offer("6.06"), offer(""))->perftest_for_host);
  EXPECT_FALSE(choose_burn_in(offer(""), offer("6.06"))->perftest_for_host);
  EXPECT_FALSE(choose_burn_in(offer("6.06"), offer("6.20"))->perftest_for_host);
}

TEST(BurnInChoice, PerftestAskedFor_IsUsedInOtherVersions) {
  const auto choice =
      choose_burn_in(offer("6.06", BurnInWith::kPerftest), offer("6.20", BurnInWith::kPerftest));
  EXPECT_TRUE(choice->perftest_for_host);
}

TEST(BurnInChoice, PerfAskedFor_IsUsed) {
  const BurnInOffer perf = offer("6.06", BurnInWith::kPerf);
  EXPECT_FALSE(choose_burn_in(perf, perf)->perftest_for_host);
}

TEST(BurnInChoice, PerftestAskedForAndMissing_NamesTheMachineAndTheOption) {
  const BurnInOffer has = offer("6.06", BurnInWith::kPerftest);
  const BurnInOffer lacks = offer("", BurnInWith::kPerftest);
  const auto here = choose_burn_in(lacks, has);
  ASSERT_FALSE(here.has_value());
  EXPECT_THAT(here.error().text,
              AllOf(HasSubstr("--burn-in-with perftest: this machine has none"),
                    HasSubstr("ib_write_bw is not in PATH"), HasSubstr("--burn-in-with perf")));
  const auto there = choose_burn_in(has, lacks);
  ASSERT_FALSE(there.has_value());
  EXPECT_THAT(there.error().text, HasSubstr("the other machine has none"));
}

TEST(BurnInChoice, OtherOptions_AreAnError) {
  const auto choice =
      choose_burn_in(offer("6.06", BurnInWith::kPerf), offer("6.06", BurnInWith::kAuto));
  ASSERT_FALSE(choice.has_value());
  EXPECT_THAT(choice.error().text,
              HasSubstr("--burn-in-with is perf here and auto on the other machine"));
}

TEST(BurnInChoice, OtherPaths_AreAnError) {
  BurnInOffer other = offer("6.06");
  other.paths = "hh";
  const auto choice = choose_burn_in(offer("6.06"), other);
  ASSERT_FALSE(choice.has_value());
  EXPECT_THAT(choice.error().text, HasSubstr("3 paths to measure and the other one 2"));
}

TEST(BurnInOffer, Hello_CarriesAllOfIt) {
  BurnInOffer sent = offer("6.06", BurnInWith::kPerftest);
  sent.perftest_gpus = true;
  const BurnInOffer got = burn_in_offer(to_json(sent));
  EXPECT_EQ(got.with, sent.with);
  EXPECT_EQ(got.perftest, sent.perftest);
  EXPECT_EQ(got.lacks, sent.lacks);
  EXPECT_EQ(got.paths, sent.paths);
  EXPECT_TRUE(got.perftest_gpus);
}

TEST(BurnInOffer, HelloOfOtherTypes_IsRead) {
  const auto hello =
      nlohmann::json::parse(R"({"with": 1, "perftest": [], "perftest_gpus": "yes"})");
  const BurnInOffer got = burn_in_offer(hello);
  EXPECT_EQ(got.with, BurnInWith::kAuto);
  EXPECT_EQ(got.perftest, "");
  EXPECT_FALSE(got.perftest_gpus);
}

TEST(BurnInWith, Texts_AreRead) {
  EXPECT_EQ(parse_burn_in_with("perf").value(), BurnInWith::kPerf);
  EXPECT_EQ(parse_burn_in_with("auto").value(), BurnInWith::kAuto);
  EXPECT_THAT(parse_burn_in_with("ib_write_bw").error().text,
              HasSubstr("Fix: auto, perftest or perf"));
}

}  // namespace
}  // namespace gdr::tools::doctor

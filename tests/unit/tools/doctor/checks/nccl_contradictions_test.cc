#include <gtest/gtest.h>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

Observations contradictions_seen_with(const config::Environment& environment) {
  MadeHost made;
  made.host.is_live = true;
  made.host.environment = environment;
  return nccl_contradictions().run(made.host);
}

TEST(NcclContradictions, NothingSet_IsOk) {
  EXPECT_EQ(contradictions_seen_with({})[0].verdict, Verdict::kOk);
}

TEST(NcclContradictions, NothingSetOnAnotherMachine_IsUnknown) {
  EXPECT_EQ(verdict_of(nccl_contradictions(), MadeHost().host), Verdict::kUnknown);
}

TEST(NcclContradictions, ForcedGid_MakesItsDescriptionUseless) {
  EXPECT_EQ(contradictions_seen_with({{"NCCL_IB_ROCE_VERSION_NUM", "2"}})[0].verdict, Verdict::kOk);
  const Observations seen =
      contradictions_seen_with({{"NCCL_IB_ROCE_VERSION_NUM", "2"}, {"NCCL_IB_GID_INDEX", "3"}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kWarning);
  EXPECT_EQ(seen[0].evidence,
            "2 (environment) has no effect with NCCL_IB_GID_INDEX=3 "
            "(environment)");
}

TEST(NcclContradictions, SplitOverOneQueuePair_IsAWarning) {
  EXPECT_EQ(contradictions_seen_with({{"NCCL_IB_SPLIT_DATA_ON_QPS", "1"}})[0].verdict,
            Verdict::kWarning);
  EXPECT_EQ(contradictions_seen_with(
                {{"NCCL_IB_SPLIT_DATA_ON_QPS", "1"}, {"NCCL_IB_QPS_PER_CONNECTION", "4"}})[0]
                .verdict,
            Verdict::kOk);
}

TEST(NcclContradictions, OthersInPairs_AreWarnings) {
  EXPECT_EQ(contradictions_seen_with(
                {{"NCCL_IB_ADAPTIVE_ROUTING", "0"}, {"NCCL_IB_AR_THRESHOLD", "1"}})[0]
                .verdict,
            Verdict::kWarning);
  EXPECT_EQ(
      contradictions_seen_with({{"NCCL_IB_MERGE_NICS", "0"}, {"NCCL_NET_MERGE_LEVEL", "PIX"}})[0]
          .verdict,
      Verdict::kWarning);
  EXPECT_EQ(
      contradictions_seen_with({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_P2P_LEVEL", "NVL"}})[0].verdict,
      Verdict::kWarning);
}

}  // namespace
}  // namespace gdr::tools::doctor

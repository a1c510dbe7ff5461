#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(LinkLayer, OneKind_IsOk) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  EXPECT_EQ(worst_of(link_layer(), made.host).evidence, "all on InfiniBand");
}

TEST(LinkLayer, MixedRails_AreAWarning) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  made.add_roce();
  EXPECT_EQ(verdict_of(link_layer(), made.host), Verdict::kOk);  // without GPUs
  made.add_rails();
  const Observation seen = worst_of(link_layer(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_THAT(seen.evidence, HasSubstr("mlx5_2:1 on Ethernet"));
  EXPECT_THAT(seen.fix, HasSubstr("NCCL_IB_HCA=^=mlx5_2:1"));
}

TEST(LinkLayer, WithoutFile_IsUnknown) {
  MadeFabric made;
  made.add_roce().link_layer = "";
  EXPECT_EQ(verdict_of(link_layer(), made.host), Verdict::kUnknown);
}

TEST(LinkLayer, UnspecifiedBesideEthernet_IsNotJudged) {
  MadeFabric made;
  made.add_roce().link_layer = "Unspecified";
  made.add_roce();
  const Observations seen = link_layer().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].evidence, "all on Ethernet (RoCE)");
}

}  // namespace
}  // namespace gdr::tools::doctor

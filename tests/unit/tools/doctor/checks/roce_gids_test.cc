#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(RoceGids, Ipv4OfVersion2_IsOkWithItsIndex) {
  MadeFabric made;
  made.add_roce();
  const Observation seen = worst_of(roce_gids(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kOk);
  EXPECT_EQ(seen.evidence, "GID index 3 ::ffff:10.0.0.1 (RoCE v2, eth0)");
}

TEST(RoceGids, InterfaceWithoutAddress_IsAWarning) {
  MadeFabric made;
  made.add_roce().gids.resize(2);
  const Observation seen = worst_of(roce_gids(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_THAT(seen.evidence, HasSubstr("link-local"));
  EXPECT_THAT(seen.fix, HasSubstr("ip addr add ADDRESS/PREFIX dev 'eth0'"));
}

TEST(RoceGids, UnusedPortBesideAnother_IsOkWithoutGpus) {
  MadeFabric made;
  made.add_roce();
  made.add_roce().gids.resize(2);
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kOk);
  made.add_rails();
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kWarning);
}

TEST(RoceGids, IwarpDevice_IsNotLookedAt) {
  MadeFabric made;
  made.add_roce().gids.resize(1);
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kWarning);
  made.hca(0).node_type = "4: RNIC";
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kNothing);
}

TEST(RoceGids, PortExcludedByTheUser_IsNotLookedAt) {
  MadeFabric made;
  made.add_roce().gids.resize(1);
  made.host.inspection.emplace();
  made.host.inspection->not_offered = {
      {FindingKind::kHcaExcluded, "mlx5_0:1", "is excluded by NCCL_IB_HCA"}};
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kNothing);
}

TEST(RoceGids, VersionOneAlone_IsAWarning) {
  MadeFabric made;
  RdmaPort& port = made.add_roce();
  std::erase_if(port.gids,
                [](const RdmaGid& one) { return one.entry.type == transport::GidType::kRoceV2; });
  EXPECT_THAT(worst_of(roce_gids(), made.host).evidence, HasSubstr("RoCE v1 is not routed"));
}

TEST(RoceGids, Ipv6Alone_IsAWarningWithTheVariable) {
  MadeFabric made;
  RdmaPort& port = made.add_roce();
  port.gids.resize(2);
  transport::Gid global = link_local_gid(9);
  global[0] = 0xfd;
  global[1] = 0;
  port.gids.push_back({{4, global, transport::GidType::kRoceV2}, "eth0"});
  EXPECT_EQ(worst_of(roce_gids(), made.host).fix, "export NCCL_IB_ADDR_FAMILY=AF_INET6");
  made.host.environment["NCCL_IB_ADDR_FAMILY"] = "AF_INET6";
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kOk);
}

TEST(RoceGids, IndexThatDoesNotExist_IsAFailure) {
  MadeFabric made;
  made.add_roce();
  made.host.environment["NCCL_IB_GID_INDEX"] = "7";
  const Observation seen = worst_of(roce_gids(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_THAT(seen.evidence, HasSubstr("NCCL_IB_GID_INDEX is 7"));
  EXPECT_THAT(seen.fix, HasSubstr("unset it"));
}

TEST(RoceGids, IndexOfVersionOne_IsAWarningAndOfVersionTwoIsOk) {
  MadeFabric made;
  made.add_roce();
  made.host.environment["NCCL_IB_GID_INDEX"] = "2";
  EXPECT_EQ(worst_of(roce_gids(), made.host).fix, "unset NCCL_IB_GID_INDEX");
  made.host.environment["NCCL_IB_GID_INDEX"] = "3";
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kOk);
}

TEST(RoceGids, IndexOfTwoFamilies_IsAWarning) {
  MadeFabric made;
  made.add_roce();
  RdmaPort& other = made.add_roce();
  other.gids[3].entry.gid = link_local_gid(9);
  other.gids[3].entry.gid[0] = 0xfd;
  made.host.environment["NCCL_IB_GID_INDEX"] = "3";
  EXPECT_THAT(worst_of(roce_gids(), made.host).evidence, HasSubstr("IPv4 address on mlx5_0:1"));
}

TEST(RoceGids, NoGidAtAll_IsAFailure) {
  MadeFabric made;
  made.add_roce().gids.clear();
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kFailure);
}

TEST(RoceGids, InfiniBandAlone_IsOk) {
  MadeFabric made;
  made.add_infiniband();
  EXPECT_EQ(verdict_of(roce_gids(), made.host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor

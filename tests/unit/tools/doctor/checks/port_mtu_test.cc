#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(PortMtu, LargestEverywhere_IsOk) {
  MadeFabric made;
  made.add_roce();
  made.add_infiniband();
  EXPECT_EQ(verdict_of(port_mtu(), made.host), Verdict::kOk);
}

TEST(PortMtu, SmallInterfaceBesideALargeOne_IsAWarningWithTheMtuOfItsPeer) {
  MadeFabric made;
  made.add_roce();
  made.add_roce().active_mtu = 1024;
  made.netdev(0).mtu = 4200;
  made.netdev(1).mtu = 1500;
  const Observation seen = worst_of(port_mtu(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_1:1");
  EXPECT_EQ(seen.evidence, "RDMA MTU 1024 of 4096, eth1 has MTU 1500; other rails have 4096");
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "ip link set dev 'eth1' mtu 4200");
  EXPECT_EQ(seen.steps[0].undo, "ip link set dev 'eth1' mtu 1500");
}

TEST(PortMtu, SmallEverywhere_IsAWarningWhereThereAreGpus) {
  MadeFabric made;
  for (size_t i = 0; i < 2; ++i) {
    made.add_roce().active_mtu = 1024;
    made.netdev(i).mtu = 1500;
  }
  EXPECT_EQ(verdict_of(port_mtu(), made.host), Verdict::kOk);
  made.add_rails();
  const Observation seen = worst_of(port_mtu(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.steps.at(0).command, "ip link set dev 'eth0' mtu 9000");
}

TEST(PortMtu, WithoutVerbs_FollowsFromTheInterface) {
  MadeFabric made;
  RdmaPort& port = made.add_roce();
  port.active_mtu.reset();
  port.max_mtu.reset();
  made.netdev(0).mtu = 4191;  // one byte less than 4096 and the headers take
  EXPECT_THAT(worst_of(port_mtu(), made.host).evidence, HasSubstr("RDMA MTU 2048 at most"));
  made.netdev(0).mtu = 4192;
  EXPECT_THAT(worst_of(port_mtu(), made.host).evidence, HasSubstr("RDMA MTU 4096 at most"));
}

TEST(PortMtu, InfiniBandBelowItsMaximum_IsAWarningAboutTheSubnetManager) {
  MadeFabric made;
  made.add_infiniband().active_mtu = 2048;
  const Observation seen = worst_of(port_mtu(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_THAT(seen.fix, HasSubstr("opensm"));
}

TEST(PortMtu, BelowWhatALargeInterfaceAllows_IsAWarning) {
  MadeFabric made;
  made.add_roce().active_mtu = 1024;
  const Observation seen = worst_of(port_mtu(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_TRUE(seen.steps.empty());
}

TEST(PortMtu, MaximumBelowThatOfItsPeers_IsAWarning) {
  MadeFabric made;
  made.add_infiniband();
  RdmaPort& small = made.add_infiniband();
  small.active_mtu = small.max_mtu = 2048;
  const Observation seen = worst_of(port_mtu(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_1:1");
  EXPECT_EQ(seen.evidence, "RDMA MTU 2048 of 2048; other rails have 4096");
  made.port(0).active_mtu = made.port(0).max_mtu = 2048;
  EXPECT_EQ(verdict_of(port_mtu(), made.host), Verdict::kOk);
}

TEST(PortMtu, WithoutVerbsAndInterface_IsUnknown) {
  MadeFabric made;
  made.add_roce().active_mtu.reset();
  made.host.ports.netdevs.clear();
  EXPECT_EQ(verdict_of(port_mtu(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

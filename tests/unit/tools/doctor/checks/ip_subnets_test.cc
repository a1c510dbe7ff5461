#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

// Two RoCE ports in 10.0.0.0/24, with these settings of both.
void share_subnet(MadeFabric* made, int ignore, int announce, int rp_filter) {
  made->add_roce();
  made->add_roce();
  made->netdev(1).addresses = {{0x0a000002, 24}};
  for (const char* of : {"all", "eth0", "eth1"}) {
    const std::string folder = std::string("/proc/sys/net/ipv4/conf/") + of;
    const bool is_all = of == std::string("all");
    made->write(folder + "/arp_ignore", std::to_string(is_all ? 0 : ignore) + "\n");
    made->write(folder + "/arp_announce", std::to_string(is_all ? 0 : announce) + "\n");
    made->write(folder + "/arp_filter", "0\n");
    made->write(folder + "/rp_filter", std::to_string(is_all ? 0 : rp_filter) + "\n");
  }
}

TEST(IpSubnets, OneSubnetForEachPort_IsOk) {
  MadeFabric made;
  made.add_roce();
  made.add_roce();
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

TEST(IpSubnets, PrefixOfAnAddressUnknown_IsUnknown) {
  MadeFabric made;
  made.add_roce();
  made.netdev(0).addresses = {{0x0a000001, 0}};
  const Observation seen = worst_of(ip_subnets(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kUnknown);
  EXPECT_EQ(seen.subject, "eth0");
}

TEST(IpSubnets, SharedWithDefaults_IsAWarningWithStepsAndUndo) {
  MadeFabric made;
  share_subnet(&made, 0, 0, 0);
  const Observation seen = worst_of(ip_subnets(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "10.0.0.0/24");
  EXPECT_THAT(seen.evidence, HasSubstr("eth0, eth1 are in one subnet; eth0: arp_ignore 0, "
                                       "arp_announce 0; eth1: arp_ignore 0, arp_announce 0"));
  ASSERT_EQ(seen.steps.size(), 4u);
  EXPECT_EQ(seen.steps[0].command, "sysctl -w 'net/ipv4/conf/eth0/arp_ignore'=1");
  EXPECT_EQ(seen.steps[0].undo, "sysctl -w 'net/ipv4/conf/eth0/arp_ignore'='0'");
}

TEST(IpSubnets, SharedWithSuitableSettings_IsOk) {
  MadeFabric made;
  share_subnet(&made, 1, 2, 2);
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

TEST(IpSubnets, SettingOfAllInterfaces_Counts) {
  MadeFabric made;
  share_subnet(&made, 0, 0, 0);
  made.write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1\n");
  made.write("/proc/sys/net/ipv4/conf/all/arp_announce", "2\n");
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

TEST(IpSubnets, StrictReversePathFilter_IsAWarningUnlessThereIsPolicyRouting) {
  MadeFabric made;
  share_subnet(&made, 1, 2, 1);
  EXPECT_THAT(worst_of(ip_subnets(), made.host).evidence, HasSubstr("eth1: rp_filter 1"));
  made.write("/proc/net/fib_trie", "Main:\n  +-- 0.0.0.0/0 3 0 5\nLocal:\nId 101:\nId 102:\n");
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

TEST(IpSubnets, SharedWithAnInterfaceWithoutRdma_IsSeen) {
  MadeFabric made;
  made.add_roce();
  made.host.ports.netdevs["eno1"].addresses = {{0x0a000009, 24}};
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kUnknown);  // no /proc
  made.write("/proc/sys/net/ipv4/conf/eno1/arp_ignore", "0\n");
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kWarning);
}

TEST(IpSubnets, InterfaceThatIsNotUp_SharesNothing) {
  MadeFabric made;
  share_subnet(&made, 0, 0, 0);
  made.netdev(1).is_up = false;
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

TEST(IpSubnets, InterfacesWithoutRdmaThatShareOne_AreNotItsSubject) {
  MadeFabric made;
  made.add_roce();
  made.host.ports.netdevs["eno1"].addresses = {{0xc0a80001, 24}};
  made.host.ports.netdevs["eno2"].addresses = {{0xc0a80002, 24}};
  EXPECT_EQ(verdict_of(ip_subnets(), made.host), Verdict::kOk);
}

}  // namespace
}  // namespace gdr::tools::doctor

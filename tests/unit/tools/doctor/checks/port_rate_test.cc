#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(PortRate, EqualPeers_AreOk) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kOk);
}

TEST(PortRate, RailBelowItsPeers_IsAFailure) {
  MadeFabric made;
  for (int i = 0; i < 4; ++i) made.add_infiniband();
  topology::Machine machine = topology::with_nvlink();
  const int full = machine.hcas[2].ports[0].speed_mbps;
  machine.hcas[2].ports[0].speed_mbps = full / 2;
  made.host.inspection.emplace();
  made.host.inspection->decision = topology::scene_of(machine);
  const Observation seen = worst_of(port_rate(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_EQ(seen.subject, "mlx5_2:1");
}

TEST(PortRate, PortBelowItsPeersWithoutGpus_IsAWarning) {
  MadeFabric made;
  made.add_roce();
  made.add_roce().rate = "25 Gb/sec (1X EDR)";
  const Observation seen = worst_of(port_rate(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kWarning);
  EXPECT_EQ(seen.subject, "mlx5_1:1");
  made.hca(1).pci_ids = "15b3:1015";
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kOk);
}

TEST(PortRate, InfiniBandLinkWithOneLane_IsAWarning) {
  MadeFabric made;
  made.add_infiniband().rate = "100 Gb/sec (1X NDR)";
  EXPECT_THAT(worst_of(port_rate(), made.host).evidence, HasSubstr("one lane of four"));
  made.port(0).rate = "200 Gb/sec (2X NDR)";
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kOk);
  made.port(0).rate = "10 Gb/sec (4X SDR)";
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kWarning);
}

TEST(PortRate, WithoutRate_IsUnknown) {
  MadeFabric made;
  made.add_roce().rate = "fast";
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kUnknown);
}

TEST(PortRate, PortThatIsDown_IsLeftToPortState) {
  MadeFabric made;
  RdmaPort& port = made.add_infiniband();
  port.state = LinkState::kDown;
  port.rate = "10 Gb/sec (4X SDR)";
  EXPECT_EQ(verdict_of(port_rate(), made.host), Verdict::kOk);
}

}  // namespace
}  // namespace gdr::tools::doctor

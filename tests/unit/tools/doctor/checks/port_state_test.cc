#include <gmock/gmock.h>

#include "tests/unit/tools/doctor/made_fabric.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

using ::testing::HasSubstr;

TEST(PortState, ActivePorts_AreOk) {
  MadeFabric made;
  made.add_infiniband();
  made.add_roce();
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kOk);
}

TEST(PortState, InfiniBandPortInInit_IsAFailureThatNamesTheSubnetManager) {
  MadeFabric made;
  made.add_infiniband().state = LinkState::kInit;
  const Observation seen = worst_of(port_state(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_EQ(seen.subject, "mlx5_0:1");
  EXPECT_THAT(seen.evidence, HasSubstr("state INIT, physical state LinkUp"));
  EXPECT_THAT(seen.fix, HasSubstr("subnet manager"));
}

TEST(PortState, DisabledInfiniBandPort_IsAFailureWithTheCommand) {
  MadeFabric made;
  RdmaPort& port = made.add_infiniband();
  port.state = LinkState::kDown;
  port.phys_state = PhysState::kDisabled;
  const Observation seen = worst_of(port_state(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  EXPECT_THAT(seen.fix, HasSubstr("ibportstate -C 'mlx5_0' -P 1 -D 0 1 enable"));
}

TEST(PortState, InterfaceThatIsNotUp_IsAFailureWithAStepAndItsUndo) {
  MadeFabric made;
  made.add_roce().state = LinkState::kDown;
  made.netdev(0).is_up = false;
  const Observation seen = worst_of(port_state(), made.host);
  EXPECT_EQ(seen.verdict, Verdict::kFailure);
  ASSERT_EQ(seen.steps.size(), 1u);
  EXPECT_EQ(seen.steps[0].command, "ip link set dev 'eth0' up");
  EXPECT_EQ(seen.steps[0].undo, "ip link set dev 'eth0' down");
}

TEST(PortState, InterfaceWithoutCarrier_IsAFailureOfTheCable) {
  MadeFabric made;
  made.add_roce().state = LinkState::kDown;
  made.netdev(0).has_carrier = false;
  const Observation seen = worst_of(port_state(), made.host);
  EXPECT_THAT(seen.evidence, HasSubstr("eth0 is up and has no carrier"));
  EXPECT_TRUE(seen.steps.empty());
}

TEST(PortState, OnePortDownWithoutGpus_IsAWarning) {
  MadeFabric made;
  made.add_roce();
  made.add_roce();
  made.port(1).state = LinkState::kDown;
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kWarning);
  made.port(0).state = LinkState::kDown;
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kFailure);
}

TEST(PortState, RailDown_IsAFailureAndAnExcludedPortIsNot) {
  MadeFabric made;
  made.add_infiniband();
  made.add_infiniband();
  made.add_rails();
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kOk);
  made.port(1).state = LinkState::kDown;
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kFailure);
  made.hca(1).name = "mlx5_storage";
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kOk);
}

TEST(PortState, SecondPortsThatNoCardHasUp_AreOk) {
  MadeFabric made;
  made.add_infiniband();
  topology::Machine machine = topology::with_nvlink();
  for (topology::Hca& hca : machine.hcas) {
    hca.ports.resize(1);
    topology::Port second = hca.ports[0];
    second.number = 2;
    second.state = topology::Port::State::kDown;
    hca.ports.push_back(second);
  }
  made.host.inspection.emplace();
  made.host.inspection->decision = topology::scene_of(machine);
  RdmaPort second = made.port(0);
  second.number = 2;
  second.state = LinkState::kDown;
  made.hca(0).ports.push_back(second);
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kOk);
}

TEST(PortState, UnknownState_IsUnknown) {
  MadeFabric made;
  made.add_roce().state = LinkState::kUnknown;
  EXPECT_EQ(verdict_of(port_state(), made.host), Verdict::kUnknown);
}

TEST(PortState, WithoutHca_IsOk) {
  EXPECT_EQ(verdict_of(port_state(), MadeHost().host), Verdict::kNothing);
}

}  // namespace
}  // namespace gdr::tools::doctor

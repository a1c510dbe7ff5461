#include "plugin/standby_rails.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

namespace gdr::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using topology::PathClass;

topology::nccl::Settings with_level(PathClass level) {
  topology::nccl::Settings settings;
  settings.gdr_level = level;
  return settings;
}

// The facts of the devices of a decision, all alike but for name and card.
std::vector<DeviceFacts> facts_of(const topology::RailDecision& decision) {
  std::vector<DeviceFacts> facts;
  for (topology::PortRef port : topology::usable_ports(decision.plan)) {
    DeviceFacts made;
    made.hca = hca_of(decision.machine, port).name;
    made.port = port_of(decision.machine, port).number;
    made.guid = 0x100u + static_cast<unsigned>(port.hca);
    made.gdr = {true, true};
    facts.push_back(made);
  }
  return facts;
}

std::vector<std::vector<size_t>> standby_of(const topology::RailDecision& decision,
                                            const std::vector<DeviceFacts>& facts,
                                            size_t most = 1) {
  std::vector<std::vector<size_t>> chosen;
  for (const StandbyRails& one : choose_standby_rails(decision, facts, most)) {
    chosen.push_back(one.devices);
    EXPECT_EQ(one.why_none.empty(), !one.devices.empty());
  }
  return chosen;
}

// A switch of two GPUs and two HCAs on each socket: all below a switch of
// two_sockets_with_switches() are moved below the one before it.
topology::Machine two_switches_of_two_hcas() {
  topology::Machine machine = topology::two_sockets_with_switches();
  machine.hcas.pop_back();
  for (size_t i : {1, 3}) {
    machine.hcas[i].at = machine.hcas[i - 1].at;
    for (size_t gpu : {2 * i, 2 * i + 1}) machine.gpus[gpu].at = machine.hcas[i].at;
  }
  return machine;
}

TEST(StandbyRails, Machine_TakesTheNearestRailsWithinTheLevel) {
  topology::Machine no_function = topology::two_sockets_with_switches();
  no_function.hcas.resize(2);
  no_function.hcas[1].bdf.reset();
  no_function.hcas[1].at = no_function.hcas[0].at;
  struct Case {
    topology::Machine machine;
    topology::nccl::Settings settings;
    size_t most;
    std::vector<std::vector<size_t>> standby;
  };
  for (const Case& one :
       {Case{two_switches_of_two_hcas(), {}, 1, {{1}, {0}, {3}, {2}}},
        Case{topology::two_sockets_with_switches(),
             with_level(PathClass::kPhb),
             3,
             {{1}, {0}, {3}, {2}}},
        Case{topology::two_sockets_with_switches(),
             with_level(PathClass::kSys),
             3,
             {{1, 2, 3}, {0, 2, 3}, {3, 0, 1}, {2, 0, 1}}},
        // Without GPUDirect, NCCL copies through host memory, and the distance does not count.
        Case{topology::flat(2, 3), {}, 1, {{1}, {2}, {0}}},
        Case{topology::flat(0, 3), {}, 2, {{1, 2}, {2, 0}, {0, 1}}},
        Case{no_function, {}, 1, {{1}, {0}}}}) {
    const auto decision = topology::scene_of(one.machine, one.settings);
    EXPECT_EQ(standby_of(decision, facts_of(decision), one.most), one.standby);
  }
}

TEST(StandbyRails, ChosenOnes_AreDescribedInTheirOrder) {
  const auto decision =
      topology::scene_of(topology::two_sockets_with_switches(), with_level(PathClass::kSys));
  const auto facts = facts_of(decision);
  EXPECT_THAT(describe_standby(facts, 0, choose_standby_rails(decision, facts, 2)[0]),
              "failover [0] mlx5_0:1 to mlx5_1:1, mlx5_2:1");
}

TEST(StandbyRails, NothingWithinTheLevel_IsNoneWithTheReason) {
  const auto decision = topology::scene_of(topology::two_sockets_with_switches());
  const auto facts = facts_of(decision);
  const auto chosen = choose_standby_rails(decision, facts, 1);
  ASSERT_EQ(chosen.size(), 4u);
  EXPECT_THAT(chosen[0].devices, IsEmpty());
  EXPECT_THAT(chosen[0].why_none,
              testing::AllOf(HasSubstr("to mlx5_1:1"), HasSubstr("PHB is beyond")));
  EXPECT_THAT(describe_standby(facts, 0, chosen[0]),
              HasSubstr("failover [0] mlx5_0:1 to no other rail: from GPU0 to mlx5_1:1"));
  // A GPU with NVLinks may send over another GPU that is near the HCA, and receives nothing so.
  const auto linked = topology::scene_of(topology::with_nvlink());
  EXPECT_THAT(choose_standby_rails(linked, facts_of(linked), 1)[0].why_none,
              HasSubstr("PHB is beyond"));
}

TEST(StandbyRails, OtherLinkLayer_IsNoStandby) {
  const auto decision = topology::scene_of(two_switches_of_two_hcas());
  auto facts = facts_of(decision);
  facts[1].ethernet = facts[3].ethernet = true;
  const auto chosen = choose_standby_rails(decision, facts, 1);
  EXPECT_THAT(chosen[0].devices, IsEmpty());
  EXPECT_EQ(chosen[0].why_none, "mlx5_1:1 is RoCE");
}

// Connections would create and lose the rail one by one.
TEST(StandbyRails, NoAddressOrOneOfAnotherKind_IsNoStandby) {
  const auto decision = topology::scene_of(topology::flat(0, 2));
  auto facts = facts_of(decision);
  for (DeviceFacts& one : facts) one.ethernet = true, one.address = "RoCE v2, IPv4";
  EXPECT_THAT(choose_standby_rails(decision, facts, 1)[0].devices, ElementsAre(1));
  facts[1].address = "RoCE v2, IPv6";
  EXPECT_THAT(choose_standby_rails(decision, facts, 1)[0].why_none,
              "mlx5_1:1 has an address of another kind (RoCE v2, IPv6, not RoCE v2, IPv4)");
  facts[1].has_address = false;
  facts[1].address = "mlx5_1:1: no GID lies in NCCL_IB_ADDR_RANGE";
  EXPECT_THAT(choose_standby_rails(decision, facts, 1)[0].why_none, facts[1].address);
  EXPECT_THAT(choose_standby_rails(decision, facts, 1)[1].devices, ElementsAre(0));
}

TEST(StandbyRails, FewerRegistrationPathsOrOtherFlush_IsNoStandby) {
  const auto decision = topology::scene_of(topology::flat(0, 2));
  auto facts = facts_of(decision);
  facts[1].gdr = {false, true};
  facts[1].gdr_text = "peermem";
  auto chosen = choose_standby_rails(decision, facts, 1);
  EXPECT_THAT(chosen[0].devices, IsEmpty());
  EXPECT_THAT(chosen[0].why_none, "mlx5_1:1 lacks a registration path for GPU memory: peermem");
  EXPECT_THAT(chosen[1].devices, ElementsAre(0));
  facts[1].gdr = {true, true};
  facts[1].data_direct = true;
  chosen = choose_standby_rails(decision, facts, 1);
  EXPECT_THAT(chosen[0].devices, IsEmpty());
  EXPECT_THAT(chosen[1].devices, IsEmpty());
  EXPECT_THAT(chosen[1].why_none, HasSubstr("Data Direct"));
}

TEST(StandbyRails, EqualDistances_PreferThePlaneAndThenAnotherCard) {
  const auto decision = topology::scene_of(topology::flat(0, 4));
  auto facts = facts_of(decision);
  facts[1].guid = facts[0].guid;
  EXPECT_THAT(standby_of(decision, facts, 3)[0], ElementsAre(2, 3, 1));
  facts[0].plane = facts[3].plane = 1;
  EXPECT_THAT(standby_of(decision, facts, 3)[0], ElementsAre(3, 2, 1));
}

TEST(StandbyRails, OnlyDevice_HasNone) {
  const auto decision = topology::scene_of(topology::flat(1, 1));
  const auto facts = facts_of(decision);
  EXPECT_THAT(describe_standby(facts, 0, choose_standby_rails(decision, facts, 3)[0]),
              HasSubstr("failover [0] mlx5_0:1 to no other rail: there is no other device"));
}

}  // namespace
}  // namespace gdr::plugin

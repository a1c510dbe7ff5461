#include "topology/grouping.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

namespace gdr::topology {
namespace {

TEST(GroupUnderSwitches, FlatMachine_EachGpuIsPixToItsOwnHcaOnly) {
  RailDecision scene = scene_of(flat(4, 4));
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  PathTable paths(grouped);
  ASSERT_EQ(grouped.switches.size(), 4u);
  EXPECT_EQ(grouped.switches[0].bdf.to_string(), "ffff:ff:01.0");
  EXPECT_EQ(grouped.switches[3].bdf.to_string(), "ffff:ff:04.0");
  for (size_t gpu = 0; gpu < 4; ++gpu) {
    int own = scene.plan.first_rail_of(gpu)->port.hca;
    for (size_t hca = 0; hca < 4; ++hca) {
      bool is_own = static_cast<int>(hca) == own;
      EXPECT_EQ(paths.gpu_hca(gpu, hca), is_own ? PathClass::kPix : PathClass::kPhb);
    }
  }
}

TEST(GroupUnderSwitches, GpusOfOneRail_ShareASwitch) {
  RailDecision scene = scene_of(flat(4, 2));
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  EXPECT_EQ(grouped.switches.size(), 2u);
  for (const Gpu& gpu : grouped.gpus) EXPECT_GE(gpu.at.parent, 0);
}

TEST(GroupUnderSwitches, FormerSwitches_StayOnlyWithDevices) {
  Machine machine = two_sockets_with_switches();
  machine.hcas.back().at = machine.hcas[0].at;  // the storage HCA stays behind on the first switch
  RailDecision scene = scene_of(machine);
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  std::vector<std::string> addresses;
  for (const Switch& one : grouped.switches) addresses.push_back(one.bdf.to_string());
  EXPECT_THAT(addresses, ::testing::ElementsAre("0000:11:00.0", "ffff:ff:01.0", "ffff:ff:02.0",
                                                "ffff:ff:03.0", "ffff:ff:04.0"));
  EXPECT_EQ(grouped.switches[grouped.hcas.back().at.parent].bdf.to_string(), "0000:11:00.0");
}

TEST(GroupUnderSwitches, HcaOnAnotherNode_MovesToTheGpu) {
  RailOptions options;
  options.map = RailMap::parse_entries("0=mlx5_3").value();
  RailDecision scene = scene_of(two_sockets_with_switches(), {}, options);
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  EXPECT_EQ(grouped.gpus[0].at, grouped.hcas[3].at);
  EXPECT_EQ(grouped.numa_nodes[grouped.hcas[3].at.numa].id, 0);
}

TEST(GroupUnderSwitches, HcaOfTwoGroups_GoesToThatOfAGpusFirstRail) {
  RailOptions options;
  options.map = RailMap::parse_entries("0=mlx5_0,mlx5_1;1=mlx5_1").value();
  RailDecision scene = scene_of(flat(2, 2), {}, options);
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  EXPECT_EQ(grouped.hcas[0].at, grouped.gpus[0].at);
  EXPECT_EQ(grouped.hcas[1].at, grouped.gpus[1].at);
}

TEST(GroupUnderSwitches, GroupOverTwoNodes_IsOnTheFirstGpusNode) {
  RailDecision scene = scene_of(lopsided());
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  ASSERT_EQ(grouped.switches.size(), 1u);
  EXPECT_EQ(grouped.numa_nodes[grouped.gpus[1].at.numa].id, 0);
}

TEST(GroupUnderSwitches, GpuWithoutRail_IsNotMoved) {
  RailDecision scene = scene_of(flat(2, 0));
  EXPECT_EQ(group_under_switches(scene.machine, scene.plan).gpus, scene.machine.gpus);
}

TEST(GroupUnderSwitches, ManyGroups_HaveDifferentAddresses) {
  RailDecision scene = scene_of(flat(33, 33));
  Machine grouped = group_under_switches(scene.machine, scene.plan);
  ASSERT_EQ(grouped.switches.size(), 33u);
  for (size_t i = 1; i < 33; ++i) EXPECT_LT(grouped.switches[i - 1].bdf, grouped.switches[i].bdf);
}

}  // namespace
}  // namespace gdr::topology

#include "topology/grouping.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/machines.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> switches_of(const Machine& machine) {
  std::vector<std::string> addresses;
  for (const Switch& one : machine.switches) addresses.push_back(one.bdf.to_string());
  return addresses;
}

RailDecision with_map(Machine machine, const std::string& map) {
  RailOptions options;
  options.map = RailMap::parse_entries(map).value();
  return scene_of(std::move(machine), {}, options);
}

Machine one_switch() {
  Machine machine = machine_with_one_switch();
  machine.switches[0].ids = {};
  return machine;
}

Machine grouped_of(const RailDecision& scene) {
  return group_under_switches(scene.machine, scene.plan);
}

TEST(GroupUnderSwitches, FlatMachine_EachGpuIsPixToItsOwnHcaOnly) {
  RailDecision scene = scene_of(flat(4, 4));
  Machine grouped = grouped_of(scene);
  PathTable paths(grouped);
  EXPECT_THAT(switches_of(grouped),
              ElementsAre("ffff:ff:01.0", "ffff:ff:02.0", "ffff:ff:03.0", "ffff:ff:04.0"));
  for (size_t gpu = 0; gpu < 4; ++gpu) {
    int own = scene.plan.first_rail_of(gpu)->port.hca;
    for (size_t hca = 0; hca < 4; ++hca) {
      bool is_own = static_cast<int>(hca) == own;
      EXPECT_EQ(paths.gpu_hca(gpu, hca), is_own ? PathClass::kPix : PathClass::kPhb);
    }
  }
}

TEST(GroupUnderSwitches, RailsNearestAlreadyOrNone_ChangeNothing) {
  for (const Machine& machine : {two_sockets_with_switches(), lopsided(), flat(8, 1), flat(2, 0)}) {
    RailDecision scene = scene_of(machine);
    EXPECT_EQ(grouped_of(scene).gpus, scene.machine.gpus);
    EXPECT_EQ(grouped_of(scene).hcas, scene.machine.hcas);
  }
}

TEST(GroupUnderSwitches, SwitchWithTheGroupsGpusOnly_GetsItsHcas) {
  RailDecision scene = with_map(two_sockets_with_switches(),
                                "0=mlx5_3;1=mlx5_3;2=mlx5_1;3=mlx5_1;4=mlx5_2;5=mlx5_2;"
                                "6=mlx5_0;7=mlx5_0");
  Machine grouped = grouped_of(scene);
  EXPECT_THAT(switches_of(grouped),
              ElementsAre("0000:11:00.0", "0000:31:00.0", "0000:51:00.0", "0000:71:00.0"));
  EXPECT_EQ(grouped.hcas[3].at, grouped.gpus[0].at);
  EXPECT_EQ(grouped.hcas[0].at, grouped.gpus[7].at);
  EXPECT_EQ(grouped.gpus, scene.machine.gpus);
}

TEST(GroupUnderSwitches, SwitchThatLosesItsDevices_IsDropped) {
  Machine machine = flat(2, 2);
  const int parent = add_switch(&machine, bdf_of(0x3f), Attachment{-1, 0, -1});
  machine.hcas[1].at.parent = parent;
  RailDecision scene = scene_of(machine);
  EXPECT_THAT(switches_of(grouped_of(scene)), ElementsAre("ffff:ff:01.0", "ffff:ff:02.0"));
}

TEST(GroupUnderSwitches, ExcludedPort_StaysWhereItIs) {
  Machine machine = one_switch();
  machine.hcas.push_back(make_hca("mlx5_2", bdf_of(0x30), machine.gpus[0].at));
  machine.hcas.back().ports[0].speed_mbps = 25000;
  machine.hcas.back().ids.device = 0x1015;  // of another model
  RailDecision scene = scene_of(machine);
  Machine grouped = grouped_of(scene);
  EXPECT_EQ(grouped.switches[grouped.hcas.back().at.parent].bdf.to_string(), "0000:01:00.0");
}

TEST(GroupUnderSwitches, HcaOfTwoGroups_GoesToThatOfAGpusFirstRail) {
  RailDecision scene = with_map(flat(2, 2), "0=mlx5_0,mlx5_1;1=mlx5_1");
  Machine grouped = grouped_of(scene);
  EXPECT_EQ(grouped.hcas[0].at, grouped.gpus[0].at);
  EXPECT_EQ(grouped.hcas[1].at, grouped.gpus[1].at);
}

TEST(GroupUnderSwitches, GroupOverTwoNodes_ServesTheNodeWithMoreGpus) {
  Machine machine = flat(3, 2);
  machine.packages = two_sockets().packages;
  machine.numa_nodes = two_sockets().numa_nodes;
  for (Gpu& gpu : machine.gpus) gpu.at.numa = &gpu == &machine.gpus[0] ? 0 : 1;
  for (Hca& hca : machine.hcas) hca.at.numa = 1;
  RailDecision scene = with_map(machine, "0=mlx5_0;1=mlx5_0;2=mlx5_0");
  scene.plan.rails.push_back(Rail{1, {1, 0}, true, ""});  // a rail that no GPU uses
  Machine grouped = grouped_of(scene);
  EXPECT_EQ(grouped.gpus[0].at, scene.machine.gpus[0].at);
  EXPECT_EQ(grouped.gpus[1].at, grouped.gpus[2].at);
  EXPECT_EQ(PathTable(grouped).gpu_hca(1, 0), PathClass::kPix);
  EXPECT_EQ(PathTable(grouped).gpu_hca(0, 0), PathClass::kSys);
}

TEST(GroupUnderSwitches, HcasOfOneFunction_MoveTogether) {
  Machine machine = flat(2, 2);
  machine.hcas[1].bdf = machine.hcas[0].bdf;
  machine.hcas.push_back(make_hca("mlx5_2", bdf_of(0x50), machine.hcas[0].at));
  RailDecision scene = with_map(machine, "0=mlx5_0;1=mlx5_1");
  scene.plan.rails.push_back(Rail{2, {2, 0}, true, ""});
  Machine grouped = grouped_of(scene);
  EXPECT_EQ(grouped.hcas[0].at, grouped.hcas[1].at);
  EXPECT_EQ(grouped.gpus[0].at, grouped.gpus[1].at);
}

TEST(GroupUnderSwitches, PartitionsOfAGpu_StayTogether) {
  Machine machine = flat(2, 3);
  machine.gpus[1].bdf = machine.gpus[0].bdf;
  for (int i = 0; i < 2; ++i) machine.gpus[i].partition = i;
  machine.gpus.push_back(make_gpu(bdf_of(0x18), machine.gpus[0].at));
  RailDecision scene = with_map(machine, "0=mlx5_0;1=mlx5_1;2=mlx5_2");
  Machine grouped = grouped_of(scene);
  EXPECT_EQ(grouped.gpus[0].at, grouped.gpus[1].at);
  EXPECT_EQ(grouped.hcas[1].at.parent, grouped.gpus[0].at.parent);
  EXPECT_NE(grouped.gpus[2].at, grouped.gpus[0].at);
}

}  // namespace
}  // namespace gdr::topology

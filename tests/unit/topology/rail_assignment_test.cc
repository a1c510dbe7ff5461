#include "topology/rail_assignment.h"

#include <gmock/gmock.h>

#include "tests/unit/topology/rails_fixture.h"

namespace gdr::topology {
namespace {

using ::testing::ElementsAre;

class RailAssignment : public RailsFixture {
 protected:
  // Adds a switch below switch `number` and moves the last GPU there.
  void move_last_gpu_below_a_board(int number) {
    Gpu& gpu = machine_.gpus.back();
    const Bdf bdf{1, gpu.bdf.bus, gpu.bdf.device, 0};
    machine_.switches.push_back(Switch{bdf, below(number), 0x060400, {}, {}});
    gpu.at.parent = static_cast<int>(machine_.switches.size()) - 1;
  }
  // Puts switch `number` below the switch `above`.
  void put_below(int number, int above) {
    machine_.switches[below(number).parent].at = below(above);
  }
  void set_packages(const std::vector<int>& packages) {
    machine_.packages = {Package{0}, Package{1}};
    for (size_t i = 0; i < packages.size(); ++i) {
      machine_.numa_nodes[numa_index(&machine_, static_cast<int>(i))].package = packages[i];
    }
  }
};

// Switches 1 and 2 are below switch 9. GPUs are on boards of their own, so that all HCAs are PXB.
TEST_F(RailAssignment, SameClass_FewerSwitchesDecide) {
  for (int number : {1, 2}) put_below(number, 9);
  for (int number : {1, 1, 2, 2}) gpu(number), move_last_gpu_below_a_board(number);
  hca(2);
  hca(1).bdf->domain = 1;  // so that it is the second rail
  plan();
  EXPECT_EQ(plan_.gpus[0].path, PathClass::kPxb);
  EXPECT_EQ(plan_.gpus[3].path, PathClass::kPxb);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_1", "mlx5_0", "mlx5_0"));
}

TEST_F(RailAssignment, SameClass_SameSocketDecides) {
  gpu(0, 2), gpu(0, 1), gpu(0, 3);
  hca(0, 400, 4), hca(0, 400, 0);
  set_packages({0, 1, 0, 1, 1});
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_0", "mlx5_0"));
}

TEST_F(RailAssignment, SameSocket_LatencyDecides) {
  gpu(0, 1), gpu(0, 2);
  hca(0, 400, 0), hca(0, 400, 3);
  set_packages({0, 0, 0, 0});
  machine_.numa_nodes[numa_index(&machine_, 1)].distances = {{0, 14}, {1, 10}, {2, 11}, {3, 12}};
  machine_.numa_nodes[numa_index(&machine_, 2)].distances = {{0, 12}, {1, 11}, {2, 10}, {3, 14}};
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_0"));
}

TEST_F(RailAssignment, SameNode_SameHostBridgeDecides) {
  gpu(0), gpu(0);
  hca(0), hca(0);
  machine_.host_bridges = {HostBridge{0, 0}, HostBridge{0, 1}};
  machine_.gpus[0].at.host_bridge = machine_.hcas[1].at.host_bridge = 1;
  machine_.gpus[1].at.host_bridge = machine_.hcas[0].at.host_bridge = 0;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1", "mlx5_0"));
}

TEST_F(RailAssignment, RailsOfAGpu_BeginWithTheNearest) {
  gpu(0);
  hca(0), hca(1);
  plan();
  ASSERT_EQ(machine_.hcas[1].at.parent, 0);
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0,mlx5_1"));
  machine_.hcas[0].at = machine_.hcas[1].at;
  machine_.hcas[1].at = machine_.gpus[0].at;
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_1,mlx5_0"));
}

TEST_F(RailAssignment, PartitionsOfAGpu_DivideTheRailsOfTheCard) {
  gpu(1), gpu(2);
  machine_.gpus.push_back(machine_.gpus[0]);
  machine_.gpus[0].partition = 0;
  machine_.gpus[2].partition = 1;
  hca(1), hca(1), hca(2), hca(2);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2,mlx5_3"));
}

TEST_F(RailAssignment, MorePartitionsThanRails_ShareTheRailsOfTheCard) {
  gpu(0);
  machine_.gpus[0].partition = 0;
  machine_.gpus.insert(machine_.gpus.end(), 3, machine_.gpus[0]);
  for (int i = 0; i < 4; ++i) machine_.gpus[i].partition = i;
  hca(0), hca(0);
  plan();
  EXPECT_THAT(by_gpu(), ElementsAre("mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"));
}

}  // namespace
}  // namespace gdr::topology

#include "topology/distance.h"

#include <gtest/gtest.h>

#include "tests/unit/topology/machines.h"

namespace gdr::topology {
namespace {

Distance distance_of(const Machine& machine, size_t hca) {
  return distance_between(machine, PathTable(machine), 0, hca);
}

TEST(Distance, SwitchWhereThePathsMeet_CountsOnce) {
  Machine machine = two_sockets();
  const int top = add_switch(&machine, bdf_of(1), Attachment{-1, 0, -1});
  const int left = add_switch(&machine, bdf_of(2), Attachment{top, 0, -1});
  const int right = add_switch(&machine, bdf_of(3), Attachment{top, 0, -1});
  for (Switch& one : machine.switches) one.ids = {};
  machine.gpus = {make_gpu(bdf_of(8), Attachment{left, 0, -1})};
  for (int parent : {left, top, right, -1}) {
    machine.hcas.push_back(make_hca("mlx5", bdf_of(9), Attachment{parent, 0, -1}));
  }
  EXPECT_EQ(distance_of(machine, 0).switches, 1);
  EXPECT_EQ(distance_of(machine, 1).switches, 2);
  EXPECT_EQ(distance_of(machine, 2).switches, 3);
  EXPECT_EQ(distance_of(machine, 3).switches, 2);
  EXPECT_LT(distance_of(machine, 1), distance_of(machine, 2));
}

TEST(Distance, BelowTheHostBridge_OnlySwitchesCount) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[0].at.numa = 1;  // what firmware states for a device may contradict its switch
  EXPECT_EQ(distance_of(machine, 0), (Distance{PathClass::kPix, false, 10, false, 1}));
}

TEST(Distance, AnotherSocket_CountsBeforeSwitches) {
  Machine machine = two_sockets_with_switches();
  machine.hcas[2].at.parent = -1;
  EXPECT_EQ(distance_of(machine, 1), (Distance{PathClass::kPhb, false, 10, true, 2}));
  EXPECT_EQ(distance_of(machine, 2), (Distance{PathClass::kSys, true, 21, true, 1}));
  machine.numa_nodes[0].distances = {{0, 10}, {1, 32}};
  EXPECT_EQ(distance_of(machine, 2).numa_latency, 32);
}

TEST(Distance, UnknownNodesAndPackages_AreNotFar) {
  Machine machine = flat(1, 1);
  EXPECT_EQ(distance_of(machine, 0), (Distance{PathClass::kPhb, false, 10, false, 0}));
  machine.gpus[0].at.numa = machine.hcas[0].at.numa = -1;
  EXPECT_EQ(distance_of(machine, 0).numa_latency, 10);
}

}  // namespace
}  // namespace gdr::topology

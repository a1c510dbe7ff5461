#include "softhca/fabric/route.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

constexpr uint64_t kSubnet1 = 0xfec0000000000001;
constexpr uint64_t kSubnet2 = 0xfec0000000000002;

// Two ports and a QP of each, addressed to each other by LID within one subnet.
class Route : public testing::Test {
 protected:
  Route() {
    make(near_port, 1);
    make(far_port, 2);
    near.dlid = 2;
    far.dlid = 1;
  }

  static void make(SharedPort& port, uint8_t number) {
    port.gids_mutex.init();
    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port.lid.store(number);
    port.subnet_prefix = kSubnet1;
    port.gid_count = 2;
    port.gids[0].gid.raw[15] = number;
  }
  void address_by_gid() {
    near.global = far.global = 1;
    near.hop_limit = far.hop_limit = 2;
    near.sgid = far.dgid = near_port.gids[0].gid;
    far.sgid = near.dgid = far_port.gids[0].gid;
  }
  bool there() const { return packets_arrive(near, near_port, far, far_port); }
  bool back() const { return packets_arrive(far, far_port, near, near_port); }

  SharedPort near_port{};
  SharedPort far_port{};
  SharedQp near{};
  SharedQp far{};
};

// A GID of the port that the other end does not send from: it would not match the answers.
TEST_F(Route, GrhOfOtherGidOfThePort_AcceptedByTargetWithoutGrhOnly) {
  address_by_gid();
  far_port.gids[1].gid.raw[15] = 7;
  near.dgid = far_port.gids[1].gid;
  EXPECT_FALSE(there());
  far.global = 0;
  EXPECT_TRUE(there());
}

TEST_F(Route, ZeroGid_NamesNoEmptyEntry) {
  near.global = 1;
  near.dgid = {};
  EXPECT_FALSE(there());
}

TEST_F(Route, GrhRequiredAtEitherEnd_PacketsWithoutAreLostInBothDirections) {
  for (SharedPort* port : {&near_port, &far_port}) {
    port->grh_required = 1;
    EXPECT_FALSE(there());
    EXPECT_FALSE(back());
    port->grh_required = 0;
  }
  near_port.grh_required = 1;
  address_by_gid();
  EXPECT_TRUE(there());
  EXPECT_TRUE(back());
}

TEST_F(Route, OtherSubnet_ByGrhAndFlidOrRouterOnly) {
  far_port.subnet_prefix = kSubnet2;
  far_port.flid = 0x1002;
  EXPECT_FALSE(there()) << "no GRH";
  address_by_gid();
  EXPECT_FALSE(there()) << "the LID of the other subnet";
  near.dlid = 0x1002;
  EXPECT_TRUE(there());
  near.hop_limit = 1;
  EXPECT_FALSE(there()) << "ends at the router";
  near.hop_limit = 255;
  near.global = 0;
  EXPECT_FALSE(there()) << "the router has no GID to look up";
  near.global = 1;
  near.dlid = 0x50;
  EXPECT_FALSE(there());
  near_port.router_lid = 0x50;
  EXPECT_TRUE(there());
}

TEST_F(Route, SameSubnet_FlidIsNoLid) {
  address_by_gid();
  far_port.flid = 0x1002;
  near.dlid = 0x1002;
  EXPECT_FALSE(there());
}

TEST_F(Route, Ethernet_ByGidOnly) {
  near_port.link_layer = far_port.link_layer = IBV_LINK_LAYER_ETHERNET;
  EXPECT_FALSE(there());
  address_by_gid();
  near.dlid = 0;
  EXPECT_TRUE(there());
  far_port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  EXPECT_FALSE(there());
}

}  // namespace
}  // namespace softhca

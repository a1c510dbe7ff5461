#include "transport/pairs/unreachable_paths.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace gdr::transport {
namespace {

using std::chrono::seconds;

wire::RailAddress local_port(const char* hca) {
  wire::RailAddress address{};
  std::snprintf(address.hca, sizeof(address.hca), "%s", hca);
  address.port = 1;
  return address;
}

// Of 10.0.subnet.host.
wire::RailAddress peer(uint8_t subnet, uint8_t host) {
  wire::RailAddress address{};
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, subnet, host};
  return address;
}

wire::RailAddress peer_of_ipv6(uint8_t subnet, uint8_t host) {
  wire::RailAddress address{};
  address.gid = {0xfd, 0, 0, 0, 0, 0, 0, subnet, 0, 0, 0, 0, 0, 0, 0, host};
  return address;
}

struct UnreachablePathsTest : testing::Test {
  UnreachablePaths paths;
  const wire::RailAddress here = local_port("mlx5_0");
  const Clock::time_point start{};
};

TEST_F(UnreachablePathsTest, OnePeer_CountsForItsAddressAndTheLocalPort) {
  for (int i = 0; i < 2; ++i) paths.add(here, peer(1, 1), start);
  EXPECT_TRUE(paths.contains(here, peer(1, 1), start));
  EXPECT_FALSE(paths.contains(here, peer(1, 2), start)) << "perhaps only the first is broken";
  EXPECT_FALSE(paths.contains(local_port("mlx5_1"), peer(1, 1), start));
}

TEST_F(UnreachablePathsTest, TwoPeersOfASubnet_StandForAllOfIt) {
  for (auto of : {peer, peer_of_ipv6}) {
    paths.add(here, of(1, 1), start);
    paths.add(here, of(1, 2), start);
    EXPECT_TRUE(paths.contains(here, of(1, 3), start));
    EXPECT_FALSE(paths.contains(here, of(2, 3), start));
  }
}

TEST_F(UnreachablePathsTest, AfterAWhile_IsTriedAgain) {
  paths.add(here, peer(1, 1), start);
  paths.add(here, peer(1, 2), start + seconds(1));
  EXPECT_TRUE(paths.contains(here, peer(1, 3), start + UnreachablePaths::kHold - seconds(1)));
  EXPECT_FALSE(paths.contains(here, peer(1, 3), start + UnreachablePaths::kHold));
  EXPECT_TRUE(paths.contains(here, peer(1, 2), start + UnreachablePaths::kHold));
  EXPECT_FALSE(paths.contains(here, peer(1, 2), start + UnreachablePaths::kHold + seconds(1)));
}

TEST_F(UnreachablePathsTest, AttemptIsUrgent_ThePeerAloneIsLeftAloneForASecond) {
  paths.add(here, peer(1, 1), start);
  paths.add(here, peer(1, 2), start);
  EXPECT_FALSE(paths.contains(here, peer(1, 3), start, /*urgent=*/true));
  EXPECT_TRUE(paths.contains(here, peer(1, 1), start, /*urgent=*/true));
  EXPECT_FALSE(paths.contains(here, peer(1, 1), start + seconds(1), /*urgent=*/true));
}

TEST_F(UnreachablePathsTest, PeerReached_TheOthersStandForThemselvesAlone) {
  for (uint8_t subnet : {1, 2}) {
    paths.add(here, peer(subnet, 1), start);
    paths.add(here, peer(subnet, 2), start);
  }
  paths.remove(here, peer(1, 2));
  EXPECT_FALSE(paths.contains(here, peer(1, 2), start));
  EXPECT_FALSE(paths.contains(here, peer(1, 3), start));
  EXPECT_TRUE(paths.contains(here, peer(1, 1), start)) << "it may have a broken port";
  EXPECT_TRUE(paths.contains(here, peer(2, 3), start)) << "another subnet";
}

TEST_F(UnreachablePathsTest, OthersDoNotAnswerAfterAPeerWasReached_TheyStandForTheSubnetAgain) {
  paths.add(here, peer(1, 1), start);
  paths.remove(here, peer(1, 3));
  paths.add(here, peer(1, 2), start);
  EXPECT_FALSE(paths.contains(here, peer(1, 4), start));
  paths.add(here, peer(1, 1), start);
  EXPECT_TRUE(paths.contains(here, peer(1, 4), start));
}

}  // namespace
}  // namespace gdr::transport

#include "transport/device/port.h"

#include <gtest/gtest.h>

namespace gdr::transport {
namespace {

TEST(LinkSpeed, KnownCodes_AreMegabitsOfAllLanes) {
  EXPECT_EQ(link_speed_mbps(32, 2), 100000);   // EDR x4
  EXPECT_EQ(link_speed_mbps(64, 2), 200000);   // HDR x4
  EXPECT_EQ(link_speed_mbps(128, 2), 400000);  // NDR x4
  EXPECT_EQ(link_speed_mbps(32, 1), 25000);
  EXPECT_EQ(link_speed_mbps(64, 16), 100000);  // HDR x2
}

TEST(LinkSpeed, UnknownCode_IsZero) {
  EXPECT_EQ(link_speed_mbps(3, 2), 0);
  EXPECT_EQ(link_speed_mbps(32, 0), 0);
}

}  // namespace
}  // namespace gdr::transport

#include "transport/pairs/rail_load.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/transport/data/sizes.h"
#include "tests/unit/transport/recovery/rail_simulation.h"

namespace gdr::transport {
namespace {

constexpr double kFast = 20e9;
constexpr size_t kSizes[] = {128 * kKib, 1 * kMib, 8 * kMib};

class RatesOfTwo : public testing::TestWithParam<int> {};

TEST_P(RatesOfTwo, WindowOfEightMessages_ReachesTheSum) {
  const double slow = kFast / GetParam();
  for (size_t bytes : kSizes) {
    for (bool slow_first : {false, true}) {
      Simulation rails(slow_first ? std::vector{slow, kFast} : std::vector{kFast, slow});
      // Half of the first window goes to the slow rail, whose speed is still unknown.
      rails.run(bytes, 8, 64.0 * kMib / slow);
      EXPECT_GE(rails.run(bytes, 8, 0.2) / (kFast + slow), 0.95) << bytes << " " << slow_first;
    }
  }
}

TEST_P(RatesOfTwo, RateChangesMidway_ReachesTheSumAgain) {
  const double slow = kFast / GetParam();
  for (size_t bytes : kSizes) {
    Simulation rails({kFast, kFast});
    rails.run(bytes, 8, 0.05);
    rails.set_speed(1, slow);
    rails.run(bytes, 8, 0.2);
    EXPECT_GE(rails.run(bytes, 8, 0.4) / (kFast + slow), 0.95) << bytes << ", slower";
    rails.set_speed(1, kFast);
    rails.run(bytes, 8, 0.6);
    EXPECT_GE(rails.run(bytes, 8, 0.2) / (2 * kFast), 0.95) << bytes << ", fast again";
  }
}

INSTANTIATE_TEST_SUITE_P(RailLoad, RatesOfTwo, testing::Values(1, 2, 10, 100),
                         testing::PrintToStringParamName());

TEST(RailLoadTest, FourEqualRails_ReachTheSum) {
  constexpr double kEach = kFast / 4;
  for (size_t bytes : kSizes) {
    Simulation rails({kEach, kEach, kEach, kEach});
    rails.run(bytes, 8, 0.05);
    EXPECT_GE(rails.run(bytes, 8, 0.1) / (4 * kEach), 0.95) << bytes;
  }
}

TEST(RailLoadTest, SlowRail_CarriesNoShortMessages) {
  Simulation rails({kFast, kFast / 10});
  rails.run(2 * kMib, 8, 0.05);
  rails.run(64, 1, 0.01);  // until the large ones are complete
  const size_t before = rails.sent(1);
  rails.run(64, 32, 0.02);
  rails.run(64, 1, 0.02);
  EXPECT_EQ(rails.sent(1), before);
}

TEST(RailLoadTest, EqualRails_ShortMessagesTakeTurns) {
  Simulation rails({kFast, kFast});
  rails.run(64, 1, 0.001);
  EXPECT_NEAR(static_cast<double>(rails.sent(0)), static_cast<double>(rails.sent(1)), 64);
}

TEST(RailLoadTest, EqualRails_ChunksTakeTurns) {
  RailLoad load({1e9, 1e9, 1e9});
  std::string order;
  for (int i = 0; i < 7; ++i) {
    const size_t path = load.choose(kMib, 7, at(0));
    load.post(path, kMib, at(0));
    order += static_cast<char>('0' + path);
  }
  EXPECT_EQ(order, "0120120");
}

TEST(RailLoadTest, PortsOfDifferentSpeeds_LoadFollowsThemBeforeAnythingIsMeasured) {
  RailLoad load({3e9, 1e9});
  for (int i = 0; i < 16; ++i) load.post(load.choose(kMib, 3, at(0)), kMib, at(0));
  EXPECT_EQ(load.unacknowledged(0), 12 * kMib);
  EXPECT_EQ(load.unacknowledged(1), 4 * kMib);
}

TEST(RailLoadTest, UnknownSpeed_CountsAsTheFastestPort) {
  RailLoad load({0, 2e9});
  EXPECT_DOUBLE_EQ(load.speed(0), 2e9);
  EXPECT_GT(RailLoad({0, 0}).speed(1), 0);
}

TEST(RailLoadTest, PathThatIsNotUsable_IsNotChosen) {
  RailLoad load({100e9, 1e9});
  EXPECT_EQ(load.choose(kMib, 2, at(0)), 1u);
  EXPECT_EQ(load.choose(0, 1, at(0)), 0u);
}

TEST(RailLoadTest, RailStops_LosesItsSpeedBeforeAnythingIsAcknowledged) {
  RailLoad load({1e9, 1e9});
  load.post(0, kMib, at(0));
  load.note_poll(0, at(0.001));
  EXPECT_NEAR(load.speed(0), 1e9, 1e6);
  load.note_poll(0, at(0.1));
  EXPECT_LT(load.speed(0), 2e7);
}

// What was acknowledged since the last poll is not known.
TEST(RailLoadTest, NobodyPolls_SpeedsStayAsTheyAre) {
  RailLoad load({2e9, 1e9});
  for (double now : {0.0, 0.1, 0.2}) load.post(load.choose(kMib, 3, at(now)), kMib, at(now));
  EXPECT_DOUBLE_EQ(load.speed(0), 2e9);
  EXPECT_DOUBLE_EQ(load.speed(1), 1e9);
}

// The queue of the other rail is never found empty.
TEST(RailLoadTest, OneRailIsPolledToTheEnd_ItsSpeedIsMeasured) {
  RailLoad load({1e9, 1e9});
  for (int i = 0; i < 100; ++i) {
    for (size_t path : {0, 1}) load.post(path, kMib, at(i));
    load.note_poll(1, at(i + 0.8));
    for (size_t path : {0, 1}) load.acknowledge(path, kMib, at(i + 0.9));
  }
  EXPECT_LT(load.speed(1), 2e6);
  EXPECT_GE(load.speed(0), 1e9);
}

// One that is taken for faster than any port would get everything.
TEST(RailLoadTest, IdleRail_IsRetriedAtThePortsSpeedAtMost) {
  RailLoad load({1e9, 1e9});
  for (int i = 0; i < 8; ++i) {
    const double begin = i * 2e-3;
    for (size_t path : {0, 1}) load.post(path, kMib, at(begin));
    for (size_t path : {0, 1}) load.note_poll(path, at(begin + kMib / 0.9e9));
    for (size_t path : {0, 1}) load.acknowledge(path, kMib, at(begin + kMib / 0.9e9));
  }
  load.choose(kMib, 3, at(10));
  EXPECT_NEAR(load.speed(0), 1e9, 1);
}

TEST(RailLoadTest, PathReturns_IsTakenForAsFastAsItsPort) {
  RailLoad load({1e9, 2e9});
  for (int i = 0; i < 100; ++i) {
    load.post(0, kMib, at(i));
    load.note_poll(0, at(i + 0.8));
    load.acknowledge(0, kMib, at(i + 0.9));
  }
  EXPECT_LT(load.speed(0), 2e6);
  load.restart(0);
  EXPECT_DOUBLE_EQ(load.speed(0), 1e9);
}

TEST(RailLoadTest, PairLost_ItsBytesDoNotCount) {
  RailLoad load({1e9, 1e9});
  load.post(0, kMib, at(0));
  load.post(0, 5, at(0));
  load.drop(0, kMib);
  EXPECT_EQ(load.unacknowledged(0), 5u);
}

TEST(RailLoadTest, ManyShortMessages_LeaveTheSpeedAsItWas) {
  RailLoad load({2e9, 1e9});
  for (int i = 0; i < 100'000; ++i) {
    load.post(0, 64, at(i * 1e-5));
    load.note_poll(0, at(i * 1e-5 + 8e-6));
    load.acknowledge(0, 64, at(i * 1e-5 + 9e-6));
  }
  EXPECT_DOUBLE_EQ(load.speed(0), 2e9);
}

// Both completions are found by one poll that comes late. The path that carried less is not slower.
TEST(RailLoadTest, LatePoll_PathWithLessIsNotTakenForSlow) {
  RailLoad load({1e9, 1e9});
  for (int i = 0; i < 100; ++i) {
    const double begin = i;
    for (size_t path : {0, 1}) load.note_poll(path, at(begin));
    for (int n = 0; n < 8; ++n) load.post(0, kMib, at(begin));
    load.post(1, kMib, at(begin));
    for (int n = 0; n < 8; ++n) load.acknowledge(0, kMib, at(begin + 0.9));
    load.acknowledge(1, kMib, at(begin + 0.9));
  }
  EXPECT_GE(load.speed(1), 0.9 * load.speed(0));
}

}  // namespace
}  // namespace gdr::transport

#include "transport/recovery/rail_log.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"
#include "transport/link/failure_log.h"

namespace gdr::transport {
namespace {

using std::chrono::seconds;
using wire::PairReason;

struct RailLogTest : testing::Test {
  RailLoss loss(const std::string& port = "rail", LossEffect effect = LossEffect::kGoesOn) {
    RailLoss made;
    made.port = port;
    made.peer = "b peer";
    made.cause = {PairReason::kPortDown};
    made.effect = effect;
    made.usable = "other";
    made.waits = seconds(34);
    return made;
  }
  // All connections of the process that share the rail lose it, or use it again.
  void lose(const RailLoss& made) {
    for (int i = 0; i < kConnections; ++i) log.lost(made);
    now += seconds(1);
  }
  void lose() { lose(loss()); }
  void stays_lost(const std::string& port, const std::string& peer, const Error& why) {
    log.stays_lost(port, peer, why);
    now += seconds(1);
  }
  void use_again(const std::string& port = "rail", const std::string& peer = "b peer") {
    for (int i = 0; i < kConnections; ++i) log.returned(port, peer);
    now += seconds(1);
  }

  static constexpr int kConnections = 3;
  RecordedLog lines;
  Episodes episodes;
  Clock::time_point now = Clock::now();
  RailLog log{episodes, [this] { return now; }};
};

TEST_F(RailLogTest, ConnectionsLoseARail_OneWarning) {
  lose();
  ASSERT_EQ(lines.lines().size(), 1u);
  EXPECT_EQ(lines.warnings("rail <-> b peer is lost: the port is down; connections go on").size(),
            1u);
}

// As when a switch dies: each peer's statement, or the retries of each connection, come by
// themselves.
TEST_F(RailLogTest, AThousandConnectionsWithManyPeersLoseARail_OneWarningAndALineForEachPeer) {
  RailLoss made = loss();
  for (size_t i = 0; i < 1000; ++i) {
    made.peer = "host" + std::to_string(i % 125) + " peer";
    log.lost(made);
  }
  EXPECT_EQ(lines.warnings().size(), 1u);
  EXPECT_EQ(lines.lines().size(), 125u);
}

TEST_F(RailLogTest, ConnectionDoesNotGetItBack_IsALineOfItsOwn) {
  lose();
  RailLoss made = loss();
  made.may_return = false;
  lose(made);
  lose();
  EXPECT_EQ(lines.lines().size(), 2u);
  EXPECT_EQ(lines.lines("It is not used again for the rest of the job").size(), 1u);
}

// Whatever the log reported about the first.
TEST_F(RailLogTest, NoRailIsLeftMomentsLater_IsAWarningOfItsOwn) {
  lose();
  lose(loss("rail", LossEffect::kWaits));
  lose(loss("rail", LossEffect::kWaits));
  ASSERT_EQ(lines.warnings().size(), 2u);
  EXPECT_TRUE(contains(lines.warnings()[1], "no rail is usable"));
  lose();
  EXPECT_EQ(lines.warnings().size(), 2u);
}

TEST_F(RailLogTest, ConnectionsUseTheRailAgain_OneInfoLineForEachLoss) {
  for (int i = 0; i < 2; ++i) {
    lose();
    now += seconds(11);
    use_again();
  }
  EXPECT_EQ(lines.lines("rail <-> b peer: the rail is used again after 12 s").size(), 2u);
  EXPECT_EQ(lines.warnings("used again after").size(), 0u);
}

// The sink gets the subsystems, by which NCCL_DEBUG_SUBSYS filters.
TEST_F(RailLogTest, RailIsUsedAgain_IsShownByDefault) {
  static unsigned long subsystems;
  subsystems = 0;
  lose();
  log::set_sink(
      [](log::Level, unsigned long of, const char*, int, const char*) { subsystems = of; });
  use_again();
  EXPECT_NE(subsystems & log::kInit, 0u);
  EXPECT_NE(subsystems & log::kNet, 0u);
}

TEST_F(RailLogTest, PeersReturn_EachIsNamedOnce) {
  RailLoss made = loss();
  for (const char* peer : {"b peer", "c peer"}) {
    made.peer = peer;
    log.lost(made);
  }
  for (int i = 0; i < 2; ++i) {
    use_again("rail", "c peer");
    use_again("rail", "b peer");
  }
  EXPECT_EQ(lines.lines("rail <-> c peer: the rail is used again").size(), 1u);
  EXPECT_EQ(lines.lines("used again after").size(), 2u);
}

TEST_F(RailLogTest, RailIsLostAgainAtOnce_TheLinesAreInOrder) {
  log.lost(loss());
  log.returned("rail", "b peer");
  log.lost(loss());
  const std::vector<std::string> all = lines.lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(all[0].starts_with("WARN ") && contains(all[0], "is lost")) << all[0];
  EXPECT_TRUE(contains(all[1], "the rail is used again after")) << all[1];
  EXPECT_TRUE(all[2].starts_with("INFO ") && contains(all[2], "is lost")) << all[2];
}

TEST_F(RailLogTest, RailIsLostAgainAfterItsReturn_EachLossIsAWarning) {
  lose();
  for (int i = 0; i < 2; ++i) {
    now += seconds(30);
    use_again();
    now += seconds(30);
    lose();
  }
  EXPECT_EQ(lines.warnings().size(), 3u);
  EXPECT_EQ(lines.lines("times").size(), 0u);
}

TEST_F(RailLogTest, RailFlaps_OneWarningAMinuteThatCountsTheLosses) {
  for (int i = 0; i < 25; ++i) {
    lose();
    use_again();
    now += seconds(8);
  }
  const std::vector<std::string> warnings = lines.warnings();
  ASSERT_EQ(warnings.size(), 5u);
  EXPECT_FALSE(contains(warnings[0], "times")) << warnings[0];
  for (size_t i = 1; i < warnings.size(); ++i) {
    EXPECT_TRUE(contains(warnings[i], "; it happened 5 more times since the last warning. It is"))
        << warnings[i];
  }
}

// A connection that is made meanwhile loses it, too.
TEST_F(RailLogTest, RailStaysLost_OneWarningAMinuteThatCountsNothing) {
  lose();
  for (int i = 0; i < 3; ++i) {
    now += seconds(58);
    lose();
  }
  EXPECT_EQ(lines.warnings().size(), 2u);
  EXPECT_EQ(lines.lines("it happened").size(), 0u);
}

// The port's event and the loss of its rails are one episode.
TEST_F(RailLogTest, PortIsDown_ItsLossIsAWarningOnlyBeforeAndWhereItIsLess) {
  FailureLog failures(episodes);
  const auto port_down = [&] { failures.warn("rail", "rail reports", "", now, kWorstOfAPort); };
  lose();
  port_down();
  EXPECT_EQ(lines.warnings().size(), 2u);
  lose(loss("rail", LossEffect::kWaits));
  port_down();
  EXPECT_EQ(lines.warnings().size(), 2u);
}

TEST_F(RailLogTest, LossIsExplained_IsLoggedOnceAndNoWarning) {
  for (int i = 0; i < 2; ++i) {
    lose(loss("rail", LossEffect::kExplained));
    now += seconds(30);
  }
  EXPECT_EQ(lines.lines().size(), 1u);
  EXPECT_EQ(lines.warnings().size(), 0u);
  use_again();
  EXPECT_EQ(lines.lines("used again after").size(), 1u);
  lose(loss("rail", LossEffect::kExplained));
  lose();
  EXPECT_EQ(lines.warnings().size(), 1u);
}

TEST_F(RailLogTest, RailIsLate_IsWarnedOfEveryTenMinutes) {
  log.late("rail", "b peer", std::chrono::milliseconds(270));
  ASSERT_EQ(lines.warnings().size(), 1u);
  EXPECT_TRUE(contains(lines.warnings()[0],
                       "rail <-> b peer is avoided: its data is late again and "
                       "again, at last by 270 ms; the other rails carry it"))
      << lines.warnings()[0];
  for (int i = 0; i < 2; ++i) {
    now += seconds(299);
    log.late("rail", "c peer", std::chrono::milliseconds(100));
  }
  EXPECT_EQ(lines.warnings().size(), 1u);
  now += seconds(2);
  log.late("rail", "b peer", std::chrono::milliseconds(90));
  ASSERT_EQ(lines.warnings().size(), 2u);
  EXPECT_TRUE(
      contains(lines.warnings()[1], "by 90 ms; it happened 2 more times since the last warning;"))
      << lines.warnings()[1];
  log.late("other", "b peer", std::chrono::milliseconds(270));
  EXPECT_EQ(lines.warnings("is avoided").size(), 3u) << "each port has its own";
}

TEST_F(RailLogTest, RailStaysLost_IsWarnedOfOnceUntilItReturns) {
  lose();
  const Error why{Code::kSystem, "the reason. Fix: the fix", ENODEV};
  for (int i = 0; i < 2; ++i) stays_lost("rail", "b peer", why);
  now += std::chrono::hours(2);
  stays_lost("rail", "c peer", why);
  EXPECT_EQ(lines
                .warnings("rail <-> b peer is still lost, although the port is active; it is tried "
                          "again from time to time: the reason. Fix: the fix")
                .size(),
            1u);
  EXPECT_EQ(lines.warnings("is still lost").size(), 1u);
  use_again();
  stays_lost("rail", "b peer", why);
  EXPECT_EQ(lines.warnings("is still lost").size(), 2u);
}

// A rail that stands by for one connection and is used by another.
TEST_F(RailLogTest, UsedRailIsLostAfterItStoodBy_IsAWarningOfItsOwn) {
  lose(loss("rail", LossEffect::kStoodBy));
  lose();
  lose(loss("rail", LossEffect::kStoodBy));
  EXPECT_EQ(lines.warnings().size(), 2u);
  EXPECT_EQ(lines.lines().size(), 2u);
}

TEST_F(RailLogTest, StandbyRailsAreLostForOneCause_OneWarningAMinute) {
  RailLoss made = loss();
  made.effect = LossEffect::kStoodBy;
  for (const char* port : {"first", "second", "third"}) {
    made.port = port;
    lose(made);
  }
  EXPECT_EQ(lines.warnings("first <-> b peer is lost: the port is down").size(), 1u);
  EXPECT_EQ(lines.warnings().size(), 1u);
  EXPECT_EQ(lines.lines("third <-> b peer is lost: the port is down").size(), 1u);
  now += seconds(58);
  made.port = "fourth";
  lose(made);
  EXPECT_EQ(lines.warnings().size(), 2u);
}

// Connections that are made later miss them for the same cause.
TEST_F(RailLogTest, RailsAreMissingForOneCause_OneWarningAMinuteUntilEachPortIsNamed) {
  for (int i = 0; i < 4; ++i) {
    for (const char* port : {"first", "second"}) log.warn_of("cause", port, port, ": why");
    now += seconds(60);
  }
  EXPECT_EQ(lines.warnings("first: why").size(), 1u);
  EXPECT_EQ(lines.warnings("second: why").size(), 1u);
  EXPECT_EQ(lines.lines(": why").size(), 8u);
}

}  // namespace
}  // namespace gdr::transport

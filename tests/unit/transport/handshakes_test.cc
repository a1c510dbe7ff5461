#include "transport/handshakes.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/fakes/recorded_log.h"

namespace gdr::transport {
namespace {

using std::chrono::seconds;

struct HandshakesTest : testing::Test {
  Clock::time_point time = Clock::now();
  HandshakeRegistry all{[this] { return time; }, seconds(60)};
  RecordedLog log;
  int released = 0;

  std::unique_ptr<Handshake> make() {
    return std::make_unique<Handshake>(all, [this] { ++released; });
  }
  // A call of NCCL's in which the handshake gets no further.
  void wait_once(Handshake& handshake, const std::string& what = "waits") {
    auto call = handshake.begin_call("connect");
    ASSERT_TRUE(call);
    handshake.on_waiting([&](long long s) { return what + " " + std::to_string(s) + " s"; });
  }
};

TEST_F(HandshakesTest, ManyStall_OneLineNamesTheirNumberAndTheOldest) {
  std::vector<std::unique_ptr<Handshake>> handshakes;
  for (int i = 0; i < 64; ++i) {
    handshakes.push_back(make());
    wait_once(*handshakes.back(), "handshake " + std::to_string(i));
    time += std::chrono::milliseconds(10);
  }
  time += seconds(60);
  for (int round = 0; round < 3; ++round) {
    for (int i = 63; i >= 0; --i) wait_once(*handshakes[i], "handshake " + std::to_string(i));
    time += seconds(1);
  }
  ASSERT_EQ(log.warnings().size(), 1u);
  EXPECT_EQ(
      log.warnings("watchdog: 64 handshakes make no progress; the oldest: handshake 0 60 s").size(),
      1u)
      << log.warnings()[0];
  EXPECT_EQ(log.lines("INFO NET/GDR : watchdog: handshake ").size(), 63u);
}

TEST_F(HandshakesTest, AnotherStallsInTheSameEpisode_IsLoggedAtInfo) {
  auto first = make();
  auto second = make();
  wait_once(*first);
  time += seconds(30);
  wait_once(*second, "second");
  time += seconds(30);
  wait_once(*first);
  time += seconds(1);
  wait_once(*first);
  EXPECT_EQ(log.warnings().size(), 1u);
  time += seconds(60);
  wait_once(*second, "second");
  time += seconds(1);
  wait_once(*second, "second");
  EXPECT_EQ(log.warnings().size(), 1u);
  EXPECT_EQ(log.lines("INFO NET/GDR : watchdog: second").size(), 1u);
}

TEST_F(HandshakesTest, AllGoOnAndOneStallsAgain_IsAnotherEpisode) {
  auto handshake = make();
  for (size_t episode = 1; episode <= 3; ++episode) {
    wait_once(*handshake);
    time += seconds(60);
    wait_once(*handshake);
    time += seconds(1);
    wait_once(*handshake);
    EXPECT_EQ(log.warnings().size(), episode);
    auto call = handshake->begin_call("connect");
    handshake->on_progress();
  }
}

// The time until NCCL first calls is not the peer's.
TEST_F(HandshakesTest, FirstCallComesLate_IsNoStall) {
  auto handshake = make();
  time += seconds(600);
  wait_once(*handshake);
  time += seconds(59);
  wait_once(*handshake);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(HandshakesTest, StalledHandshakeEnds_IsCountedNoMore) {
  auto first = make();
  auto second = make();
  for (auto* each : {&first, &second}) wait_once(**each);
  time += seconds(60);
  wait_once(*first, "first");
  wait_once(*second, "second");
  first.reset();
  time += seconds(1);
  wait_once(*second, "second");
  EXPECT_EQ(log.warnings("watchdog: second 60 s").size(), 1u);
}

TEST_F(HandshakesTest, WatchdogIsOff_NothingIsLogged) {
  HandshakeRegistry silent{[this] { return time; }, seconds(0)};
  Handshake handshake(silent, [] {});
  wait_once(handshake);
  time += seconds(6000);
  wait_once(handshake);
  time += seconds(1);
  wait_once(handshake);
  EXPECT_TRUE(log.lines().empty());
}

TEST_F(HandshakesTest, NotCalledForMinutes_IsReleasedOnceAndCallsFail) {
  auto handshake = make();
  wait_once(*handshake);
  for (int i = 0; i < 5; ++i) {
    time += std::chrono::minutes(5);
    all.expire_abandoned();
  }
  EXPECT_EQ(released, 1);
  auto call = handshake->begin_call("connect");
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().code, Code::kInvalidUsage);
}

TEST_F(HandshakesTest, CalledWithinTheGracePeriod_GoesOn) {
  auto handshake = make();
  wait_once(*handshake);
  time += std::chrono::hours(1);
  all.expire_abandoned();
  wait_once(*handshake);
  time += seconds(10);
  all.expire_abandoned();
  EXPECT_EQ(released, 0);
  EXPECT_TRUE(handshake->begin_call("connect"));
}

TEST_F(HandshakesTest, InsideACall_IsNeverReleased) {
  auto handshake = make();
  auto call = handshake->begin_call("connect");
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) {
      time += std::chrono::minutes(5);
      all.expire_abandoned();
    }
  });
  other.join();
  EXPECT_EQ(released, 0);
}

// A listener may be called again for another sender, whenever that comes.
TEST_F(HandshakesTest, CompleteOrNeverCalled_DoesNotExpire) {
  auto complete = make();
  auto idle = make();
  {
    auto call = complete->begin_call("accept");
    complete->on_complete();
  }
  for (int i = 0; i < 5; ++i) {
    time += std::chrono::minutes(5);
    all.expire_abandoned();
  }
  EXPECT_EQ(released, 0);
}

}  // namespace
}  // namespace gdr::transport

#include "transport/handshakes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/handshake_bed.h"
#include "tests/unit/transport/no_threads.h"
#include "tests/unit/transport/rails_pair.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {
namespace {

using std::chrono::seconds;

Handshake::Owner owner_of(std::function<std::shared_ptr<void>()> release = [] { return nullptr; }) {
  return {std::move(release), [](const HcaContext*) { return false; }};
}

struct HandshakesTest : testing::Test {
  Clock::time_point time = Clock::now();
  HandshakeRegistry all{[this] { return time; }, seconds(60)};
  RecordedLog log;
  int released = 0;

  std::unique_ptr<Handshake> make() {
    const auto release = [this]() -> std::shared_ptr<void> {
      ++released;
      return nullptr;
    };
    return std::make_unique<Handshake>(all, owner_of(release));
  }
  // A call of NCCL's in which the handshake gets no further.
  void wait_once(Handshake& handshake, const std::string& what = "waits") {
    auto call = handshake.begin_call("connect");
    ASSERT_TRUE(call);
    handshake.on_waiting([&](long long s) { return what + " " + std::to_string(s) + " s"; });
  }
};

TEST_F(HandshakesTest, ManyStall_OneWarningAMinute) {
  std::vector<std::unique_ptr<Handshake>> handshakes;
  for (int i = 0; i < 64; ++i) {
    handshakes.push_back(make());
    wait_once(*handshakes.back());
  }
  auto late = make();
  time += seconds(30);
  wait_once(*late);
  for (int round = 0; round < 30; ++round) {
    time += seconds(2);
    for (auto& each : handshakes) wait_once(*each);
  }
  EXPECT_EQ(log.warnings("watchdog: waits 60 s").size(), 1u);
  EXPECT_EQ(log.lines("INFO NET/GDR : watchdog: waits 60 s").size(), 63u);
  wait_once(*late, "late");
  time += seconds(31);
  EXPECT_EQ(log.warnings().size(), 1u);
  auto another = make();
  wait_once(*another);
  time += seconds(60);
  wait_once(*another, "another");
  EXPECT_EQ(log.warnings("watchdog: another 60 s; it happened 64 more times since the last").size(),
            1u);
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

TEST_F(HandshakesTest, WatchdogIsOff_NothingIsLogged) {
  HandshakeRegistry silent{[this] { return time; }, seconds(0)};
  Handshake handshake(silent, owner_of());
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
    all.free_abandoned();
  }
  EXPECT_EQ(released, 1);
  auto call = handshake->begin_call("connect");
  ASSERT_FALSE(call);
  EXPECT_EQ(call.error().code, Code::kInvalidUsage);
}

// What is destroyed may wait for another handshake's call, or for firmware.
TEST_F(HandshakesTest, AbandonedWhereNoThreadCanBeStarted_OtherHandshakesGoOnWhileItIsDestroyed) {
  auto watcher = Watcher::start(seconds(0)).value();
  std::atomic<Clock::time_point> now{time};  // the watcher asks, too
  HandshakeRegistry watched{[&] { return now.load(); }, seconds(60), watcher.get()};
  std::atomic<bool> destroyed = false;
  const auto destroy = [&](void*) {
    const Handshake other(watched, owner_of());
    destroyed = true;
  };
  const auto release = [&] { return std::shared_ptr<void>(nullptr, destroy); };
  Handshake abandoned(watched, owner_of(release));
  wait_once(abandoned);
  const NoThreads none;
  now = time + std::chrono::minutes(5);
  watched.free_abandoned();
  now = now.load() + seconds(10);
  EXPECT_TRUE(wait_for([&] {
    watched.free_abandoned();
    return destroyed.load();
  }));
  watcher.reset();
}

TEST_F(HandshakesTest, CalledWithinTheGracePeriod_GoesOn) {
  auto handshake = make();
  wait_once(*handshake);
  time += std::chrono::hours(1);
  all.free_abandoned();
  wait_once(*handshake);
  time += seconds(10);
  all.free_abandoned();
  EXPECT_EQ(released, 0);
  EXPECT_TRUE(handshake->begin_call("connect"));
}

TEST_F(HandshakesTest, InsideACall_IsNeverReleased) {
  auto handshake = make();
  auto call = handshake->begin_call("connect");
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) {
      time += std::chrono::minutes(5);
      all.free_abandoned();
    }
  });
  other.join();
  EXPECT_EQ(released, 0);
}

// The ends of a connection over rail 0 that stands by on rail 1, which is another one's own rail.
struct GivingHandshakes : testing::Test {
  ~GivingHandshakes() override {
    connector.reset();
    bed.watcher.reset();  // it calls `all`
  }
  Result<std::unique_ptr<SendComm>> create_later() {
    return SendComm::create({bed.sender_rails.standby, {}}, shared(bed.options.connection),
                            bed.watcher.get(), {});
  }

  RailsBed bed{1, 1};
  HandshakeRegistry all{[] { return Clock::now(); }, seconds(60), bed.watcher.get()};
  RawReceiver receiver;
  std::unique_ptr<Connector> connector =
      Connector::create(
          {nullptr, shared(bed.options), shared(bed.options.connection), bed.watcher.get(), &all},
          bed.sender_rails, receiver.handle())
          .value();
};

TEST_F(GivingHandshakes, OtherConnectionLacksAQueuePair_StandbyPairOfAHandshakeGivesWay) {
  bed.verbs.config("fake_s1").max_qps = 1;
  const RecordedLog log;
  const auto later = create_later();
  EXPECT_TRUE(later);
  EXPECT_EQ(log.warnings("Standby rails give way").size(), 1u);
  EXPECT_FALSE(create_later()) << "there was one standby pair to give";
}

TEST_F(GivingHandshakes, HandshakeIsInACallOfAnotherThread_IsWaitedFor) {
  int asked = 0;
  Handshake::Owner owner = owner_of();
  owner.give_up_standby = [&](const HcaContext*) { return ++asked > 0; };
  connector.reset();
  Handshake handshake(all, owner);
  std::optional<Room> elsewhere;
  {
    const auto call = handshake.begin_call("connect");
    std::thread([&] { elsewhere = all.give_way(nullptr); }).join();
  }
  EXPECT_EQ(elsewhere, Room::kAwaited);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(all.give_way(nullptr), Room::kMade);
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
    all.free_abandoned();
  }
  EXPECT_EQ(released, 0);
}

}  // namespace
}  // namespace gdr::transport

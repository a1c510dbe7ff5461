#include "transport/data/reviver.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/unit/transport/data/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;

// Pair 1 is lost, and due to be revived in on_tick.
struct ReviverTest : RecoveringEnds {
  void SetUp() override {
    bed.fail_pair(sender, 1);
    bed.run();
    bed.skip(1100ms);
  }
  // Shares nothing: the bed owns it.
  static std::shared_ptr<Recovery> shared_recovery(RecoveringEnd& end) {
    return {std::shared_ptr<Recovery>(), &*end.recovery};
  }
};

TEST_F(ReviverTest, PairIsDue_TheTickItselfDoesNotTouchItsQueuePair) {
  EXPECT_TRUE(sender.recovery->on_tick(bed.now()));
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_GT(sender.recovery->deadline(), bed.now()) << "the watcher would not sleep";
  EXPECT_TRUE(sender.recovery->on_tick(bed.now())) << "it is still to be done";
  sender.recovery->revive_pairs(bed.now(), bed.slow);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  EXPECT_FALSE(sender.recovery->on_tick(bed.now()));
}

TEST_F(ReviverTest, RevivalBlocks_TheConnectionRecoversAndTheOthersAreServedLater) {
  std::promise<void> entered, released;
  sender.while_reviving = [&]() -> Status {
    entered.set_value();
    released.get_future().wait();
    return {};
  };
  ASSERT_TRUE(sender.recovery->on_tick(bed.now()));
  ASSERT_TRUE(receiver.recovery->on_tick(bed.now()));
  Reviver reviver([&] { return bed.now(); });
  reviver.add(shared_recovery(sender));
  reviver.add(shared_recovery(receiver));
  entered.get_future().wait();
  sender.recovery->on_tick(bed.now());
  bed.exchange();
  EXPECT_NE(sender.recovery->state_text(), "");
  released.set_value();
  const auto is_connected_again = [](RecoveringEnd& end) {
    return contains(end.recovery->state_text(), "connected again");
  };
  EXPECT_TRUE(wait_for([&] { return is_connected_again(sender) && is_connected_again(receiver); }));
}

TEST_F(ReviverTest, ClosedWhileItRevives_CloseWaitsForTheQueuePair) {
  std::thread closer;
  ibv_qp_state seen = IBV_QPS_UNKNOWN;
  sender.while_reviving = [&]() -> Status {
    closer = std::thread([&] {
      sender.recovery->close();
      seen = sender.qp(1)->state;
    });
    return {};
  };
  ASSERT_TRUE(sender.recovery->on_tick(bed.now()));
  sender.recovery->revive_pairs(bed.now(), bed.slow);
  closer.join();
  EXPECT_EQ(seen, IBV_QPS_RTS);
}

// Firmware that does not answer must not hold up the watcher, nor a data path that needs the mutex.
TEST_F(ReviverTest, PortsAreQueried_TheTickDoesNotQueryThem) {
  bed.verbs.fail_call(fake_verbs::Call::kQueryPort, EIO);
  ASSERT_TRUE(sender.recovery->on_tick(bed.now()));
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kQueryPort), 1);
  sender.recovery->revive_pairs(bed.now(), bed.slow);
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kQueryPort), 0);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "its port is down at this end"));
  EXPECT_FALSE(sender.recovery->on_tick(bed.now()));
}

}  // namespace
}  // namespace gdr::transport

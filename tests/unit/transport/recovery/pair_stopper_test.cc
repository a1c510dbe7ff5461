// How the queue pairs of a pair that is lost are stopped.
#include <gtest/gtest.h>

#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;
using RecoveryStopTest = RecoveringEnds;

constexpr int kAlways = 1 << 20;

TEST_F(RecoveryStopTest, DataArrivesAfterTheCountIsStated_ItIsRefused) {
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_FALSE(receiver.recovery->arrivals(1).count_one(0));
  EXPECT_TRUE(receiver.recovery->arrivals(0).count_one(0));
}

// The HCA then has none to flush.
TEST_F(RecoveryStopTest,
       AllReceivesHaveArrivedUnread_TheyAgreeOnceTheyAreCountedAndThePairReturns) {
  for (int i = 0; i < RecoveringEnd::kReceives; ++i) {
    bed.send(1);
    ibv_wc sent;
    EXPECT_EQ(ibv_poll_cq(sender.connection.rails()[1].cq(), 1, &sent), 1);
  }
  bed.fail_pair(sender, 1);
  bed.settle();
  ASSERT_TRUE(receiver.recovery->arrivals(1).is_lost());
  receiver.recovery->on_consumed(1);  // of which none is read
  EXPECT_EQ(receiver.poll().size(), size_t{RecoveringEnd::kReceives});
  bed.settle();
  sender.follow_news();
  EXPECT_FALSE(sender.has_seen(Kind::kAgreed, 1));
  receiver.recovery->on_consumed(1);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, uint64_t{RecoveringEnd::kReceives});
  skip_a_second();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// A QP that does not exist takes no late packet either.
TEST_F(RecoveryStopTest, QueuePairsCannotBeStopped_TheyAreDestroyedAndTheEndsAgree) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, ETIMEDOUT, 0, kAlways);
  bed.fail_pair(sender, 1);
  EXPECT_NE(sender.qp(1), nullptr) << "its data path may still post on it";
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  ASSERT_TRUE(receiver.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 3u);
  EXPECT_EQ(sender.qp(1), nullptr);
  EXPECT_EQ(receiver.qp(1), nullptr);
  bed.skip(2min);
  bed.run();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_FALSE(sender.link->failed() || receiver.link->failed());
}

TEST_F(RecoveryStopTest, QueuePairCannotBeStoppedAtFirst_ItIsTriedAgainWhileItsEndIsNotCalled) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, ETIMEDOUT);
  bed.fail_pair(sender, 1);
  bed.tick(sender);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  bed.skip(1100ms);
  bed.tick(sender);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
}

TEST_F(RecoveryStopTest, QueuePairCanBeNeitherStoppedNorDestroyed_TheConnectionFails) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EINVAL, 0, kAlways);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EBUSY);
  bed.fail_pair(sender, 1);
  bed.tick(sender);
  EXPECT_FALSE(sender.link->failed());
  sender.news();
  sender.news();
  ASSERT_TRUE(sender.link->failed());
  EXPECT_TRUE(contains(sender.link->failure().text, "neither moved to ERROR nor destroyed"));
}

}  // namespace
}  // namespace gdr::transport

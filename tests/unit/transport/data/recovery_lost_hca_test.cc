// A port or an HCA is lost, or queue pairs cannot be stopped.
#include <gtest/gtest.h>

#include "tests/unit/transport/data/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;

using RecoveryLostHcaTest = RecoveringEnds;

constexpr int kAlways = 1 << 20;

TEST_F(RecoveryLostHcaTest, PortGoesDown_ItsPairIsGivenUpAtOnceAndReturnsWithThePort) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  bed.run();
  skip_pause();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1)) << "the port is still down";
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  bed.skip(2100ms);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// The HCA's retries may outlast it.
TEST_F(RecoveryLostHcaTest, PortOfTheLastPairGoesDown_ItIsKept) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_FALSE(sender.link->failed());
}

TEST_F(RecoveryLostHcaTest, HcaIsGone_ItsPairNeverReturns) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  ASSERT_TRUE(receiver.recovery->on_event(*receiver.connection.rails()[1].device().hca, event));
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  skip_pause();
  bed.skip(2min);
  bed.run();
  EXPECT_FALSE(receiver.has_seen(Kind::kReturned, 1));
}

// Of an HCA that is gone no receive is flushed, so that its arrivals are counted when its CQ is
// empty.
TEST_F(RecoveryLostHcaTest, HcaIsGoneWithArrivalsInItsQueue_TheyAreCounted) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO, 0, 1);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  ASSERT_TRUE(receiver.recovery->on_event(*receiver.connection.rails()[1].device().hca, event));
  bed.settle();
  sender.follow_news();
  EXPECT_FALSE(sender.has_seen(Kind::kAgreed, 1));
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 3u);
}

// Only a receiver counts what has arrived.
TEST_F(RecoveryLostHcaTest, HcaOfTheSenderIsGone_NoEmptyQueueIsAwaited) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO, 0, 1);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  ASSERT_TRUE(sender.recovery->on_event(*sender.connection.rails()[1].device().hca, event));
  EXPECT_EQ(sender.recovery->awaited_empty_queue(), 0u);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.recovery->awaited_empty_queue(), 0u);
}

// A poll that began before the pair was stopped may have missed what arrived in between.
TEST_F(RecoveryLostHcaTest, HcaIsGoneWhileItsQueueIsPolled_ArrivalsBehindThePollAreCounted) {
  receiver.link->count_posted();
  const uint32_t before = receiver.recovery->awaited_empty_queue();
  EXPECT_EQ(receiver.poll().size(), 0u);
  bed.send(1);
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO, 0, 1);
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  ASSERT_TRUE(receiver.recovery->on_event(*receiver.connection.rails()[1].device().hca, event));
  receiver.recovery->on_empty_queue(1, before);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 1u);
  EXPECT_EQ(receiver.recovery->awaited_empty_queue(), 0u);
}

// A QP that does not exist takes no late packet either.
TEST_F(RecoveryLostHcaTest, QueuePairsCannotBeStopped_TheyAreDestroyedAndTheEndsAgree) {
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

TEST_F(RecoveryLostHcaTest, QueuePairCannotBeStoppedAtFirst_ItIsTriedAgainWhileItsEndIsNotCalled) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, ETIMEDOUT);
  bed.fail_pair(sender, 1);
  sender.recovery->on_tick(bed.now());
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  bed.skip(1100ms);
  sender.recovery->on_tick(bed.now());
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
}

TEST_F(RecoveryLostHcaTest, QueuePairCanBeNeitherStoppedNorDestroyed_TheConnectionFails) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EINVAL, 0, kAlways);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EBUSY);
  bed.fail_pair(sender, 1);
  EXPECT_FALSE(sender.link->failed());
  EXPECT_EQ(sender.news().size(), 1u);
  ASSERT_TRUE(sender.link->failed());
  EXPECT_TRUE(contains(sender.link->failure().text, "neither moved to ERROR nor destroyed"));
}

// The kernel has destroyed its QPs, and every call on them fails.
TEST_F(RecoveryLostHcaTest, HcaIsRemovedAndItsEventIsLost_TheEndsAgree) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EIO);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_FALSE(sender.link->failed());
}

}  // namespace
}  // namespace gdr::transport

// What events of ports and HCAs mean for the pairs of a connection.
#include <gtest/gtest.h>

#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;

struct RecoveryPortsTest : RecoveringEnds {
  static bool report_queue_error(RecoveringEnd& end, ibv_cq* cq) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = cq;
    return end.recovery->steps().on_event(*end.connection.rails()[1].device().hca, event);
  }
  // The HCA of the second rail is gone, and the change to ERROR fails.
  void lose_hca(RecoveringEnd& end) {
    bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    ASSERT_TRUE(end.recovery->steps().on_event(*end.connection.rails()[1].device().hca, event));
  }
  static bool is_gone(const RecoveringEnd& end) {
    return contains(end.recovery->state_text(), "not used again");
  }
  // A QP that is in no pair, as that of a flush.
  static QueuePair queue_pair_on(const RailEnd& rail) {
    return create_queue_pair(rail.device(), rail.cq(), {1, 1, 0}).value();
  }
  // The sender's HCAs report a fatal error of it.
  bool report_fatal(const QueuePair& flush) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_FATAL;
    event.element.qp = flush.qp.get();
    return sender.recovery->steps().on_event(*sender.connection.rails()[1].device().hca, event);
  }
};

// The rail that is left is kept while its port is down, and must not be given up later for that.
TEST_F(RecoveryPortsTest, EventOfTheActivePortIsLost_ThePortIsLookedAt) {
  bed.fail_pair(sender, 1);
  bed.run();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  bed.verbs.port("fake_a", 1).active = true;
  skip_a_second();
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_FALSE(sender.has_seen(Kind::kLost, 0));
}

TEST_F(RecoveryPortsTest, PortGoesDown_IsWaitedForWhereNoOtherIsUsable) {
  const auto waits = [&] { return sender.recovery->steps().waits_for_a_port(); };
  EXPECT_FALSE(waits());
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(waits()) << "it is lost, and the other one is used";
  bed.run();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(waits());
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS) << "the HCA's retries may outlast it";
  bed.port_event(sender, 0, IBV_EVENT_PORT_ACTIVE);
  EXPECT_FALSE(waits());
}

// The HCA's retries end some time after its port has gone down.
TEST_F(RecoveryPortsTest, RetriesToAPortThatIsDownEnd_ThePortIsStatedByItsEnd) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(receiver, 0, IBV_EVENT_PORT_ERR);
  bed.fail_pair(sender, 0);
  bed.run();
  EXPECT_EQ(receiver.recovery->lost_pair(0).cause.reason, wire::PairReason::kPortDown);
  EXPECT_EQ(sender.recovery->lost_pair(0).peer_cause.reason, wire::PairReason::kPortDown);
}

TEST_F(RecoveryPortsTest, RetriesOfAPortThatIsDownEnd_ThePortIsTheCauseAtBothEnds) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  bed.fail_pair(sender, 0);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "(the port is down (RETRY_EXC_ERR))"))
      << sender.recovery->state_text();
  bed.run();
  EXPECT_TRUE(contains(receiver.recovery->state_text(), ": the port is down (RETRY_EXC_ERR))"))
      << receiver.recovery->state_text();
}

// The statement of the former loss is read again and again.
TEST_F(RecoveryPortsTest, PairHasReturned_WhatItWasLostForBeforeCountsNoMore) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  skip_a_second();
  ASSERT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(receiver, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_RTS) << "it is the last, which the retries may outlast";
  bed.fail_pair(receiver, 1, /*epoch=*/1);
  EXPECT_EQ(receiver.recovery->lost_pair(1).peer_cause, PairCause{});
}

TEST_F(RecoveryPortsTest, HcaIsLostWhileItsPairIsRevived_ThePairStaysDown) {
  bed.fail_pair(sender, 1);
  bed.run();
  sender.while_reviving = [&]() -> Status {
    EXPECT_TRUE(sender.recovery->on_lost_hca(1));
    return {};
  };
  skip_a_second();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RESET);
  bed.skip(2min);
  bed.run();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RESET);
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_FALSE(sender.link->failed());
}

TEST_F(RecoveryPortsTest, PortGoesDownWhileItsPairIsRevived_ItReturnsWithThePort) {
  bed.fail_pair(sender, 1);
  bed.run();
  sender.while_reviving = [&]() -> Status {
    bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
    sender.while_reviving = nullptr;
    return {};
  };
  skip_a_second();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RESET);
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  bed.skip(2100ms);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryPortsTest, QueueOfARailCannotBePolled_ItsPairNeverReturns) {
  sender.recovery->on_failed_poll(1);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  skip_a_second();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
}

// Such as that of a standby rail. What has arrived over it is still there to be polled.
TEST_F(RecoveryPortsTest, CompletionQueueFails_ItsRailIsLostForGoodAndArrivalsCount) {
  bed.send(1);
  const RailEnd& rail = receiver.connection.rails()[1];
  EXPECT_TRUE(report_queue_error(receiver, rail.cq()));
  bed.run();
  for (const RecoveringEnd* end : {&sender, &receiver}) {
    EXPECT_TRUE(end->has_seen(Kind::kAgreed, 1));
    EXPECT_FALSE(end->has_seen(Kind::kLost, 0));
    EXPECT_FALSE(end->link->failed());
  }
  const auto agreed = std::ranges::find(sender.seen, Kind::kAgreed, &PairNews::kind);
  ASSERT_NE(agreed, sender.seen.end());
  EXPECT_EQ(agreed->arrived, 1u);
  bed.skip(2min);
  bed.run();
  EXPECT_FALSE(receiver.has_seen(Kind::kReturned, 1));
}

// As at the address of a completion queue that a standby rail has given back.
TEST_F(RecoveryPortsTest, CompletionQueueOfAnotherConnectionFails_NothingIsLost) {
  const QueuePair of_another = queue_pair_on(receiver.connection.rails()[1]);
  EXPECT_TRUE(report_queue_error(sender, receiver.connection.rails()[1].cq()));
  EXPECT_TRUE(report_fatal(of_another));
  EXPECT_EQ(sender.recovery->state_text(), "");
}

TEST_F(RecoveryPortsTest, QueuePairOfAFlushFails_ItsRailIsLostAndReturns) {
  const QueuePair flush = queue_pair_on(sender.connection.rails()[1]);
  EXPECT_TRUE(report_fatal(flush));
  EXPECT_TRUE(contains(sender.recovery->state_text(), "a fatal error of the queue pair"));
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_FALSE(sender.has_seen(Kind::kLost, 0));
  skip_a_second();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

// The event came while the connection was made, and nobody waited for it.
TEST_F(RecoveryPortsTest, PortWentDownBefore_ItsPairIsGivenUpAtOnceAndReturnsWithThePort) {
  bed.verbs.port("fake_c", 1).active = false;
  sender.recovery->steps().look_at_rails();
  bed.tick(sender);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  bed.run();
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  skip_a_second();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryPortsTest, HcaFailedBefore_ItsPairIsGivenUpForGood) {
  sender.connection.rails()[1].device().hca->on_event(IBV_EVENT_DEVICE_FATAL);
  sender.recovery->steps().look_at_rails();
  bed.tick(sender);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_TRUE(sender.recovery->is_given_up(1));
  EXPECT_FALSE(sender.recovery->is_given_up(0));
  EXPECT_FALSE(sender.link->failed());
}

// Both rails of the sender are ports of one HCA.
TEST(RecoveryHcaTest, HcaOfTwoPortsIsGone_BothRailsAreLost) {
  fake_verbs::HcaConfig config = fake_verbs::HcaConfig::infiniband("fake_e", 5);
  config.ports.push_back(config.ports[0]);
  config.ports[1].lid = 6;
  RecoveryBed bed({}, config);
  EXPECT_FALSE(bed.sender.recovery->on_lost_hca(1));
  EXPECT_TRUE(bed.sender.link->failed());
  bed.tick();
  for (uint32_t pair : {0u, 1u}) EXPECT_EQ(bed.sender.qp(pair)->state, IBV_QPS_ERR);
}

// Of an HCA that is gone no receive is flushed, so that its arrivals are counted when its CQ is
// empty.
TEST_F(RecoveryPortsTest, HcaIsGoneWithArrivalsInItsQueue_TheyAreCounted) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  lose_hca(receiver);
  bed.settle();
  sender.follow_news();
  EXPECT_FALSE(sender.has_seen(Kind::kAgreed, 1));
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 3u);
}

// Only a receiver counts what has arrived.
TEST_F(RecoveryPortsTest, HcaOfTheSenderIsGone_NoEmptyQueueIsAwaited) {
  lose_hca(sender);
  EXPECT_EQ(sender.recovery->queues().awaited_empty(), 0u);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.recovery->queues().awaited_empty(), 0u);
}

// A poll that began before the pair was stopped may have missed what arrived in between.
TEST_F(RecoveryPortsTest, HcaIsGoneWhileItsQueueIsPolled_ArrivalsBehindThePollAreCounted) {
  receiver.link->count_posted();
  const uint32_t before = receiver.recovery->queues().awaited_empty();
  EXPECT_EQ(receiver.poll().size(), 0u);
  bed.send(1);
  lose_hca(receiver);
  receiver.recovery->on_empty_queue(1, before);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 1u);
  EXPECT_EQ(receiver.recovery->queues().awaited_empty(), 0u);
}

// Neither end waits for a port whose HCA has gone in the meantime.
TEST_F(RecoveryPortsTest, HcaIsLostAfterItsPort_BothEndsKnowThatTheRailDoesNotReturn) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  EXPECT_FALSE(is_gone(sender) || is_gone(receiver));
  lose_hca(sender);
  bed.run();
  EXPECT_TRUE(is_gone(sender)) << sender.recovery->state_text();
  EXPECT_TRUE(is_gone(receiver)) << receiver.recovery->state_text();
}

// The kernel has destroyed its QPs, and every call on them fails.
TEST_F(RecoveryPortsTest, HcaIsRemovedAndItsEventIsLost_TheEndsAgree) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EIO);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_FALSE(sender.link->failed());
}

}  // namespace
}  // namespace gdr::transport

#include "transport/data/recovery.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/data/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;

struct RecoveryTest : testing::Test {
  RecoveryBed bed;
  RecoveringEnd& sender = bed.sender;
  RecoveringEnd& receiver = bed.receiver;

  // Lets time pass beyond the pause before a pair is tried again.
  void let_pairs_return() {
    bed.skip(1100ms);
    bed.run();
  }
  // Lets pair 1 return, of which the receiver does not learn.
  void let_it_return_to_the_sender() {
    bed.fail_pair(sender, 1);
    bed.run();
    bed.skip(1100ms);
    for (int i = 0; i < 6; ++i) {
      bed.settle();
      sender.poll();
      sender.follow_news();
    }
    ASSERT_TRUE(sender.has_seen(Kind::kReturned, 1));
    ASSERT_FALSE(receiver.has_seen(Kind::kReturned, 1));
  }
  // Lets the sender's probe fail once the pause before the revival of pair 1 is over.
  void fail_probe(std::chrono::milliseconds pause) {
    bed.skip(pause);
    bed.verbs.hold();
    bed.settle();
    ASSERT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
    bed.verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(bed.verbs.deliver_on(sender.qp(1)->qp_num), 1);
    bed.verbs.release();
    bed.run();
    EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1));
  }
};

TEST_F(RecoveryTest, NothingFails_ThereAreNoNewsAndNothingIsSent) {
  bed.run();
  EXPECT_FALSE(sender.recovery->has_news());
  EXPECT_EQ(sender.recovery->deadline(), Clock::time_point::max());
  EXPECT_EQ(sender.recovery->state_text(), "");
  EXPECT_TRUE(bed.verbs.posted().empty());
}

// Before anything is stated, so that nothing that is late reaches this end.
TEST_F(RecoveryTest, PairFails_ItsQueuePairGoesToErrorAtOnceAndOnlyIts) {
  bed.fail_pair(sender, 1);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_TRUE(sender.recovery->has_news());
  const std::vector<PairNews> news = sender.news();
  ASSERT_EQ(news.size(), 1u);
  EXPECT_EQ(news[0].kind, Kind::kLost);
  EXPECT_EQ(news[0].pair, 1u);
  EXPECT_FALSE(sender.recovery->has_news());
}

TEST_F(RecoveryTest, PairFailsAtSender_BothAgreeOnWhatArrived) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_ERR);
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  ASSERT_TRUE(receiver.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 3u);
  EXPECT_EQ(sender.seen[1].epoch, 0u);
  EXPECT_FALSE(sender.link->failed());
}

// The arrivals are in its CQ, which only its data path reads.
TEST_F(RecoveryTest, ReceiverHasRequestsAndIsNotPolled_ThereIsNoAgreementUntilItIs) {
  bed.send(1);
  bed.fail_pair(sender, 1);
  bed.settle();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_ERR);
  sender.follow_news();
  EXPECT_FALSE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(receiver.poll().size(), 1u);
  bed.settle();
  sender.follow_news();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
}

TEST_F(RecoveryTest, ReceiverHasNoRequestsAndIsNotPolled_TheyAgreeWithoutIt) {
  bed.fail_pair(sender, 1);
  bed.settle();
  sender.follow_news();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
}

TEST_F(RecoveryTest, SenderIsNotPolled_ReceiverAgreesWithoutIt) {
  receiver.recovery->on_failed_post(1, 0);
  bed.settle();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  receiver.poll();
  receiver.follow_news();
  EXPECT_TRUE(receiver.has_seen(Kind::kAgreed, 1));
}

TEST_F(RecoveryTest, SocketIsLost_TheyAgreeByRdma) {
  sender.socket_works = receiver.socket_works = false;
  bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 1u);
}

TEST_F(RecoveryTest, StatementIsLost_ItIsRepeated) {
  receiver.socket_works = false;
  bed.verbs.hold();  // the write does not arrive either
  bed.fail_pair(sender, 1);
  bed.settle();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_RTS);
  receiver.socket_works = true;
  bed.skip(300ms);
  bed.settle();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_ERR);
  bed.verbs.release();
}

TEST_F(RecoveryTest, PairReturns_BothUseItAgainInTheNextEpoch) {
  bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1)) << "not before the pause";
  let_pairs_return();
  for (RecoveringEnd* end : {&sender, &receiver}) {
    ASSERT_TRUE(end->has_seen(Kind::kReturned, 1));
    EXPECT_EQ(end->seen.back().epoch, 1u);
    EXPECT_EQ(end->qp(1)->state, IBV_QPS_RTS);
    EXPECT_EQ(end->recovery->counters(1).losses.load(), 1u);
    EXPECT_EQ(end->recovery->counters(1).returns.load(), 1u);
    EXPECT_EQ(end->recovery->counters(0).losses.load(), 0u);
  }
  const uint32_t first = sender.described().first_psn;
  EXPECT_EQ(bed.verbs.attributes(sender.qp(1)->qp_num).sq_psn, psn_in_epoch(first, 1));
  EXPECT_EQ(bed.verbs.attributes(receiver.qp(1)->qp_num).rq_psn, psn_in_epoch(first, 1));
  EXPECT_EQ(bed.verbs.posted_receives(receiver.qp(1)->qp_num), RecoveringEnd::kReceives);
}

TEST_F(RecoveryTest, PairFailsAgain_TheNewEpochIsCountedFromZero) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  let_pairs_return();
  bed.send(1, 1);
  bed.fail_pair(sender, 1, 0);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS) << "a completion of an earlier epoch";
  sender.seen.clear();
  bed.fail_pair(sender, 1, 1);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, 1u);
  EXPECT_EQ(sender.seen[1].epoch, 1u);
}

// As a data path has found them in its CQ before it has taken the news.
TEST_F(RecoveryTest, DataArrivesBeforeTheReceiverKnowsOfTheReturn_ItIsCounted) {
  let_it_return_to_the_sender();
  bed.send(1, 1);
  EXPECT_EQ(receiver.poll().size(), 1u);
}

// Its data path reads over the rail for the flush of what has arrived.
TEST_F(RecoveryTest, HcaIsGoneAfterSuchData_TheReceiverLearnsOfTheLoss) {
  let_it_return_to_the_sender();
  bed.send(1, 1);
  EXPECT_EQ(receiver.poll().size(), 1u);
  receiver.recovery->on_early_data(1);
  sender.seen.clear();
  receiver.seen.clear();
  EXPECT_TRUE(receiver.recovery->on_lost_hca(1));
  bed.run();
  ASSERT_EQ(receiver.seen.size(), 2u);
  EXPECT_EQ(receiver.seen[0].kind, Kind::kLost);
  EXPECT_EQ(receiver.seen[1].kind, Kind::kAgreed);
  EXPECT_EQ(receiver.seen[1].epoch, 1u);
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen.back().arrived, 1u);
}

TEST_F(RecoveryTest, DataComesEarlyAndThePairStays_TheReceiverLearnsOfTheReturn) {
  let_it_return_to_the_sender();
  bed.send(1, 1);
  receiver.recovery->on_early_data(1);
  EXPECT_EQ(receiver.poll().size(), 1u);
  bed.run();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  EXPECT_EQ(receiver.seen.back().epoch, 1u);
}

TEST_F(RecoveryTest, DataArrivesAfterTheCountIsStated_ItIsRefused) {
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_FALSE(receiver.recovery->count_arrival(1, 0));
  EXPECT_TRUE(receiver.recovery->count_arrival(0, 0));
}

TEST_F(RecoveryTest, ProbeFails_ThePairIsLostAgain) {
  bed.fail_pair(sender, 1);
  bed.run();
  bed.skip(1100ms);
  bed.verbs.hold();
  bed.settle();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  bed.verbs.port("fake_d", 1).active = false;  // the peer's, of which the sender has no event
  bed.verbs.release();
  bed.run();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_FALSE(sender.link->failed());
  bed.verbs.port("fake_d", 1).active = true;
  bed.skip(2100ms);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryTest, ProbesFailOneAfterTheOther_ThePairReturnsOnceOneSucceeds) {
  bed.fail_pair(sender, 1);
  bed.run();
  fail_probe(1100ms);
  fail_probe(2100ms);
  fail_probe(4100ms);
  bed.skip(8100ms);
  bed.run();
  for (RecoveringEnd* end : {&sender, &receiver}) {
    ASSERT_TRUE(end->has_seen(Kind::kReturned, 1));
    EXPECT_EQ(end->seen.back().epoch, 4u);
    EXPECT_FALSE(end->link->failed());
  }
  bed.send(1, 4);
  EXPECT_EQ(receiver.poll().size(), 1u);
}

// The pair was not used in between, so that nothing new was lost with it.
TEST_F(RecoveryTest, ProbesFail_TheLossIsNotLoggedAgain) {
  RecordedLog log;
  bed.fail_pair(sender, 1);
  bed.run();
  ASSERT_EQ(sender.losses.size(), 1u);
  fail_probe(1100ms);
  fail_probe(2100ms);
  bed.skip(1100ms);
  bed.run();
  EXPECT_EQ(sender.losses.size(), 1u);
  EXPECT_EQ(log.lines(" is lost: ").size(), 0u);
  EXPECT_EQ(log.lines("is not usable again yet: the probe failed with RETRY_EXC_ERR").size(), 2u)
      << "one of each end";
  bed.skip(8100ms);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kReturned, 1));
  bed.fail_pair(sender, 1, sender.seen.back().epoch);
  bed.run();
  EXPECT_EQ(log.lines(" is lost: ").size() + sender.losses.size(), 2u) << "it had returned";
}

// Its loss is a new one, of which the ends have not had the time to agree.
TEST_F(RecoveryTest, ProbeIsRefused_ThePairIsLostAndTheAgreementAwaited) {
  bed.fail_pair(sender, 1);
  bed.run();
  bed.skip(1100ms);
  bed.tick();
  sender.losses.clear();
  bed.verbs.fail_call(fake_verbs::Call::kPostSend, EIO);
  bed.exchange();
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kPostSend), 0);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.losses, std::vector<std::string>{});
  bed.run();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1));
  bed.skip(2100ms);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// What an HCA leaves there would take the room of the next epoch's completions.
TEST_F(RecoveryTest, CompletionsOfTheLastEpochAreNotPolled_ThePairReturnsOnlyAfterwards) {
  bed.fail_pair(sender, 1);
  bed.settle();
  receiver.poll();
  for (int i = 0; i < 4; ++i) {
    bed.settle();
    sender.follow_news();
    receiver.follow_news();
  }
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  bed.skip(2100ms);
  bed.settle();
  receiver.poll();
  bed.settle();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.recovery->deadline(), Clock::time_point::max()) << "the watcher has to wait";
  sender.poll();
  bed.settle();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
}

// As where the send queue is full of what the data path has not polled yet.
TEST_F(RecoveryTest, EndOfTheSendQueueCannotBePosted_IsTriedAgainAndThePairReturns) {
  bed.fail_pair(sender, 1);
  bed.settle();
  EXPECT_EQ(sender.news().size(), 2u);
  bed.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  sender.recovery->finish(1, {});
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kPostSend), 0);
  bed.run();
  let_pairs_return();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryTest, SomeReceivesHaveArrivedAndWereReplaced_ThePairReturns) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  EXPECT_EQ(receiver.poll().size(), 3u);
  EXPECT_EQ(
      receiver.connection.rails().post_receives(1, 2, encode(WorkId{WorkKind::kReceive, 1, 0, 0})),
      2);
  receiver.recovery->count_receives(1, 2);
  bed.fail_pair(sender, 1);
  bed.run();
  let_pairs_return();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// The HCA then has none to flush.
TEST_F(RecoveryTest, AllReceivesHaveArrivedUnread_TheyAgreeOnceTheyAreCountedAndThePairReturns) {
  for (int i = 0; i < RecoveringEnd::kReceives; ++i) {
    bed.send(1);
    ibv_wc sent;
    EXPECT_EQ(ibv_poll_cq(sender.connection.rails()[1].cq(), 1, &sent), 1);
  }
  bed.fail_pair(sender, 1);
  bed.settle();
  ASSERT_TRUE(receiver.recovery->is_stopped(1));
  receiver.recovery->on_consumed(1);  // of which none is read
  EXPECT_EQ(receiver.poll().size(), size_t{RecoveringEnd::kReceives});
  bed.settle();
  sender.follow_news();
  EXPECT_FALSE(sender.has_seen(Kind::kAgreed, 1));
  receiver.recovery->on_consumed(1);
  bed.run();
  ASSERT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(sender.seen[1].arrived, uint64_t{RecoveringEnd::kReceives});
  let_pairs_return();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryTest, AReceiveHasNotCompletedYet_ThePairDoesNotReturn) {
  receiver.recovery->count_receives(1, 1);
  bed.fail_pair(sender, 1);
  bed.run();
  let_pairs_return();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_ERR);
}

// Of its receives, which may be only some, none is flushed.
TEST_F(RecoveryTest, PairWasOnlyInInit_ItGoesBackToReset) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  const verbs::Api& api = *bed.verbs.api();
  ASSERT_EQ(api.modify_qp(receiver.qp(1), &attr, IBV_QP_STATE), 0);
  StateChange init =
      to_init(receiver.connection.rails()[1].device(), receiver.qp(1), *receiver.options);
  ASSERT_EQ(api.modify_qp(receiver.qp(1), &init.attr, init.mask), 0);
  EXPECT_EQ(
      receiver.connection.rails().post_receives(1, 5, encode(WorkId{WorkKind::kReceive, 1, 0, 0})),
      5);
  bed.fail_pair(receiver, 1);
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_RESET);
  bed.run();
  let_pairs_return();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// libmlx5 takes no send on such a QP, and so no marker that would end its send queue.
TEST_F(RecoveryTest, PairWasNeverReadyToSend_ItGoesBackToReset) {
  const verbs::Api& api = *bed.verbs.api();
  ibv_qp_attr to_rtr = bed.verbs.attributes(receiver.qp(1)->qp_num);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(api.modify_qp(receiver.qp(1), &attr, IBV_QP_STATE), 0);
  StateChange init =
      to_init(receiver.connection.rails()[1].device(), receiver.qp(1), *receiver.options);
  ASSERT_EQ(api.modify_qp(receiver.qp(1), &init.attr, init.mask), 0);
  to_rtr.qp_state = IBV_QPS_RTR;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(api.modify_qp(receiver.qp(1), &to_rtr, kMask), 0);
  bed.fail_pair(receiver, 1);
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_RESET);
  bed.run();
  let_pairs_return();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// Its send queue needs no marker, and the reviver uses the QP without the mutex.
TEST_F(RecoveryTest, PairWasNeverConnectedAndIsRevived_NothingIsPostedOnItMeanwhile) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(bed.verbs.api()->modify_qp(sender.qp(1), &attr, IBV_QP_STATE), 0);
  bed.fail_pair(sender, 1);
  bed.run();
  int left = -1;
  sender.while_reviving = [&]() -> Status {
    EXPECT_EQ(sender.qp(1)->state, IBV_QPS_INIT);
    bed.verbs.fail_call(fake_verbs::Call::kPostSend, EINVAL);
    sender.recovery->on_tick(bed.now());
    left = bed.verbs.failures_left(fake_verbs::Call::kPostSend);
    bed.verbs.fail_call(fake_verbs::Call::kPostSend, 0, 0, 0);
    return {};
  };
  let_pairs_return();
  EXPECT_EQ(left, 1);
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryTest, PortGoesDown_ItsPairIsGivenUpAtOnceAndReturnsWithThePort) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  bed.run();
  let_pairs_return();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1)) << "the port is still down";
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  bed.skip(2100ms);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// The HCA's retries may outlast it.
TEST_F(RecoveryTest, PortOfTheLastPairGoesDown_ItIsKept) {
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.port_event(sender, 0, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_FALSE(sender.link->failed());
}

TEST_F(RecoveryTest, HcaIsGone_ItsPairNeverReturns) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  ASSERT_TRUE(receiver.recovery->on_event(*receiver.connection.rails()[1].device().hca, event));
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  let_pairs_return();
  bed.skip(2min);
  bed.run();
  EXPECT_FALSE(receiver.has_seen(Kind::kReturned, 1));
}

// Of an HCA that is gone no receive is flushed, so that its arrivals are counted when its CQ is
// empty.
TEST_F(RecoveryTest, HcaIsGoneWithArrivalsInItsQueue_TheyAreCounted) {
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
TEST_F(RecoveryTest, HcaOfTheSenderIsGone_NoEmptyQueueIsAwaited) {
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
TEST_F(RecoveryTest, HcaIsGoneWhileItsQueueIsPolled_ArrivalsBehindThePollAreCounted) {
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

constexpr int kAlways = 1 << 20;

// A QP that does not exist takes no late packet either.
TEST_F(RecoveryTest, QueuePairsCannotBeStopped_TheyAreDestroyedAndTheEndsAgree) {
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

TEST_F(RecoveryTest, QueuePairCannotBeStoppedAtFirst_ItIsTriedAgainWhileItsEndIsNotCalled) {
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

TEST_F(RecoveryTest, QueuePairCanBeNeitherStoppedNorDestroyed_TheConnectionFails) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EINVAL, 0, kAlways);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EBUSY);
  bed.fail_pair(sender, 1);
  EXPECT_FALSE(sender.link->failed());
  EXPECT_EQ(sender.news().size(), 1u);
  ASSERT_TRUE(sender.link->failed());
  EXPECT_TRUE(contains(sender.link->failure().text, "neither moved to ERROR nor destroyed"));
}

// The kernel has destroyed its QPs, and every call on them fails.
TEST_F(RecoveryTest, HcaIsRemovedAndItsEventIsLost_TheEndsAgree) {
  bed.verbs.fail_call(fake_verbs::Call::kModifyToError, EIO);
  bed.verbs.fail_call(fake_verbs::Call::kDestroyQp, EIO);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_FALSE(sender.link->failed());
}

// The cause comes with another completion, or with an event.
TEST_F(RecoveryTest, WorkIsFlushed_TheCauseIsWaitedForAShortTime) {
  bed.fail_pair(sender, 1, 0, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  EXPECT_LE(sender.recovery->deadline(), Clock::now() + 20ms);
  bed.fail_pair(sender, 1, 0, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "(RETRY_EXC_ERR)"));
}

TEST_F(RecoveryTest, WorkIsFlushedWithoutACause_ThePairIsLostAllTheSame) {
  bed.fail_pair(sender, 1, 0, IBV_WC_WR_FLUSH_ERR);
  bed.skip(30ms);
  sender.recovery->on_tick(bed.now());
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "WR_FLUSH_ERR"));
}

TEST_F(RecoveryTest, QueuePairReportsAFatalError_ItsPairIsLost) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_FATAL;
  event.element.qp = sender.qp(0);
  EXPECT_TRUE(sender.recovery->on_event(*sender.connection.rails()[0].device().hca, event));
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
}

// They show a defect, which other rails do not fix.
TEST_F(RecoveryTest, QueuePairReportsAnAccessError_ItIsNotRecovered) {
  ibv_async_event event{};
  event.event_type = IBV_EVENT_QP_ACCESS_ERR;
  event.element.qp = sender.qp(0);
  EXPECT_FALSE(sender.recovery->on_event(*sender.connection.rails()[0].device().hca, event));
}

TEST_F(RecoveryTest, PeerStatesNonsense_TheConnectionFails) {
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = 1;
  statement.pair = 1;
  statement.step = 7;
  sender.recovery->on_statement(statement);
  EXPECT_TRUE(sender.link->failed());
}

TEST_F(RecoveryTest, PeerStatesAPairThatIsNone_TheConnectionFails) {
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = 1;
  statement.pair = 2;
  sender.recovery->on_statement(statement);
  EXPECT_TRUE(sender.link->failed());
}

TEST_F(RecoveryTest, PairIsLost_IsLoggedOnceWithWhatMoved) {
  RecordedLog log;
  bed.fail_pair(sender, 1);
  bed.settle();
  sender.news();
  sender.recovery->finish(1, {.chunks = 2, .bytes = 4096, .receives = 0});
  ASSERT_EQ(sender.losses.size(), 1u);
  for (const char* part :
       {"fake_c:1 <-> ",
        "fake_d:1 is lost: RETRY_EXC_ERR; 1 connection goes on over fake_a:1, which",
        "takes over 2 chunks of 4096 bytes", "until then 1 connection has no failover", "Fix: "}) {
    EXPECT_TRUE(contains(sender.losses[0], part)) << part << " in " << sender.losses[0];
  }
  bed.run();
  let_pairs_return();
  EXPECT_EQ(sender.losses.size(), 1u);
  ASSERT_EQ(sender.returns.size(), 1u);
  EXPECT_TRUE(sender.returns[0].starts_with("fake_c:1 <-> ")) << sender.returns[0];
  EXPECT_TRUE(sender.returns[0].ends_with("fake_d:1")) << sender.returns[0];
  bed.fail_pair(sender, 1, 1);
  bed.run();
  EXPECT_EQ(sender.losses.size(), 2u);
  EXPECT_EQ(log.lines("fake_c:1 <-> ").size(), 0u);
  EXPECT_EQ(log.lines("a <-> b: queue pair 1 of fake_c:1 failed: RETRY_EXC_ERR; moved: 2").size(),
            1u);
}

// That end has warned of it.
TEST_F(RecoveryTest, RailIsWithdrawn_ItsEndLogsNoWarningOfItsOwn) {
  EXPECT_TRUE(receiver.recovery->withdraw_rail(1));
  bed.run();
  EXPECT_TRUE(sender.has_seen(Kind::kAgreed, 1));
  EXPECT_EQ(receiver.explained.size(), 1u);
  EXPECT_TRUE(receiver.losses.empty());
  EXPECT_EQ(sender.losses.size(), 1u) << "the pair does not stand by";
}

TEST_F(RecoveryTest, PeerDoesNotAgree_TheLossIsLoggedAfterAWhileAllTheSame) {
  receiver.socket_works = false;
  bed.verbs.hold();
  bed.fail_pair(sender, 1);
  EXPECT_TRUE(sender.losses.empty());
  bed.skip(1100ms);
  sender.recovery->on_tick(bed.now());
  ASSERT_EQ(sender.losses.size(), 1u);
  EXPECT_TRUE(contains(sender.losses[0], "yet to move what was under way")) << sender.losses[0];
  bed.verbs.release();
}

// As in a job that computes.
TEST_F(RecoveryTest, EndsHaveAgreedAndAreNotCalled_WhatMovesIsLoggedLater) {
  bed.fail_pair(sender, 1);
  bed.settle();
  bed.skip(1100ms);
  bed.settle();
  ASSERT_EQ(sender.losses.size(), 1u);
  EXPECT_TRUE(contains(sender.losses[0], "yet to move what was under way")) << sender.losses[0];
  sender.news();
  sender.recovery->finish(1, {.chunks = 2, .bytes = 4096, .receives = 0});
  ASSERT_EQ(sender.losses.size(), 2u);
  EXPECT_TRUE(contains(sender.losses[1], "takes over 2 chunks")) << sender.losses[1];
  EXPECT_FALSE(contains(sender.losses[1], "yet to move")) << sender.losses[1];
}

TEST_F(RecoveryTest, Closed_NoQueuePairIsTouched) {
  bed.fail_pair(sender, 1);
  sender.recovery->close();
  bed.fail_pair(sender, 0);
  bed.skip(5s);
  sender.recovery->on_tick(bed.now());
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
}

// As the watcher calls it for the watchdog, whose link outlives the QPs.
TEST_F(RecoveryTest, Closed_StateTextNamesNoPair) {
  bed.fail_pair(sender, 1);
  EXPECT_NE(sender.recovery->state_text(), "");
  sender.recovery->close();
  EXPECT_EQ(sender.recovery->state_text(), "");
}

// Else the watcher, which wakes up at the deadline, would not sleep any more.
TEST_F(RecoveryTest, ConnectionHasFailed_NothingIsDue) {
  bed.fail_pair(sender, 1);
  EXPECT_NE(sender.recovery->deadline(), Clock::time_point::max());
  sender.link->fail_link(Error{Code::kRemote, "it fails"}, false);
  bed.skip(20ms);
  sender.recovery->on_tick(bed.now());
  EXPECT_EQ(sender.recovery->deadline(), Clock::time_point::max());
}

TEST_F(RecoveryTest, ConnectionHasFailed_NoPairIsRevived) {
  bed.fail_pair(sender, 1);
  bed.run();
  sender.link->fail_link(Error{Code::kRemote, "it fails"}, false);
  bed.skip(1100ms);
  bed.tick();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
}

TEST_F(RecoveryTest, SocketOfTheLinkIsLost_TheProbeGoesOverAUsablePair) {
  bed.fail_pair(sender, 0);
  bed.settle();
  bed.verbs.forget_posted();
  EXPECT_TRUE(sender.recovery->probe_peer());
  EXPECT_TRUE(sender.recovery->probe_peer()) << "one is outstanding";
  ASSERT_EQ(bed.verbs.posted().size(), 1u);
  EXPECT_EQ(bed.verbs.posted()[0].qp_num, sender.qp(1)->qp_num);
  EXPECT_TRUE(bed.verbs.posted()[0].is_signalled());
}

TEST(RecoveryBeginTest, PairWasNotConnected_IsTheFirstNewsAtBothEnds) {
  RecoveryBed bed({1});
  bed.run();
  for (RecoveringEnd* end : {&bed.sender, &bed.receiver}) {
    EXPECT_TRUE(end->has_seen(Kind::kLost, 1));
    EXPECT_TRUE(end->has_seen(Kind::kAgreed, 1));
    EXPECT_FALSE(end->has_seen(Kind::kLost, 0));
  }
  bed.skip(1100ms);
  bed.run();
  EXPECT_TRUE(bed.sender.has_seen(Kind::kReturned, 1));
}

}  // namespace
}  // namespace gdr::transport

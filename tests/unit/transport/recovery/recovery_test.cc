#include "transport/recovery/recovery.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;

using RecoveryTest = RecoveringEnds;

TEST_F(RecoveryTest, NothingFails_ThereAreNoNewsAndNothingIsSent) {
  bed.run();
  EXPECT_FALSE(sender.recovery->has_news());
  EXPECT_EQ(sender.recovery->steps().deadline(), Clock::time_point::max());
  EXPECT_EQ(sender.recovery->state_text(), "");
  EXPECT_TRUE(bed.verbs.posted().empty());
}

TEST_F(RecoveryTest, PairFails_ItsQueuePairGoesToErrorAtOnceAndBothAgreeOnWhatArrived) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.fail_pair(sender, 1);
  EXPECT_LE(sender.recovery->steps().deadline(), bed.now()) << "the watcher has to come at once";
  bed.tick(sender);
  // Before anything is stated, so that nothing that is late reaches this end.
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_TRUE(sender.recovery->has_news());
  sender.follow_news();
  ASSERT_EQ(sender.seen.size(), 1u);
  EXPECT_TRUE(sender.has_seen(Kind::kLost, 1));
  EXPECT_FALSE(sender.recovery->has_news());
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

// rxe does not flush what is posted on a QP in ERROR.
TEST_F(RecoveryTest, StatementCannotBePosted_ReceivesOfThatPairAreNotReplaced) {
  bed.fail_pair(receiver, 1);
  bed.tick(receiver);
  receiver.poll();
  bed.skip(300ms);
  bed.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  const RecoverySteps::Due due = receiver.recovery->steps().on_tick(bed.now());
  ASSERT_EQ(due.stops & 1, 1u) << "of the pair that was to carry it";
  EXPECT_TRUE(receiver.recovery->arrivals(0).is_lost());
}

// An HCA that sends nothing inline reads them after the post.
TEST_F(RecoveryTest, StatementMayStillBeRead_TheNextOneDoesNotOverwriteIt) {
  const wire::PairStatement& own = (*sender.tables)->pairs[1].of_sender;
  bed.fail_pair(sender, 1);
  bed.tick(sender);
  const uint32_t first = own.serial_first;
  EXPECT_NE(first, 0u);
  bed.skip(1s);
  bed.settle();
  EXPECT_EQ(own.serial_first, first);
  bed.run();
  skip_a_second();
  EXPECT_GT(own.serial_first, first);
}

// Whose completion has yet to be polled.
TEST_F(RecoveryTest, PairThatCarriesAStatementIsStopped_TheNextOneIsWritten) {
  const wire::PairStatement& own = (*sender.tables)->pairs[0].of_sender;
  bed.fail_pair(sender, 0);
  bed.tick(sender);
  const uint32_t first = own.serial_first;
  EXPECT_NE(first, 0u);
  bed.fail_pair(sender, 1);
  for (int i = 0; i < 12; ++i) {
    bed.settle();
    sender.poll(1);
    receiver.poll();
    sender.follow_news();
    receiver.follow_news();
    bed.skip(300ms);
  }
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 0));
  EXPECT_GT(own.serial_first, first);
}

// The cause comes with another completion, or with an event.
TEST_F(RecoveryTest, WorkIsFlushed_TheCauseIsWaitedForAShortTime) {
  for (uint32_t pair : {0u, 1u}) bed.fail_pair(sender, pair, 0, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  EXPECT_LE(sender.recovery->steps().deadline(), Clock::now() + 20ms);
  bed.fail_pair(sender, 0, 0, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "(RETRY_EXC_ERR)"));
  bed.skip(30ms);
  bed.tick(sender);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
  EXPECT_TRUE(contains(sender.recovery->state_text(), "WR_FLUSH_ERR"));
}

// An access error shows a defect, which other rails do not fix.
TEST_F(RecoveryTest, QueuePairReportsAnError_ItsPairIsLostIfItIsFatal) {
  for (ibv_event_type type : {IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL}) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.qp = sender.qp(0);
    const bool is_fatal = type == IBV_EVENT_QP_FATAL;
    const HcaContext& hca = *sender.connection.rails()[0].device().hca;
    EXPECT_EQ(sender.recovery->steps().on_event(hca, event), is_fatal);
    bed.tick(sender);
    EXPECT_EQ(sender.qp(0)->state, is_fatal ? IBV_QPS_ERR : IBV_QPS_RTS);
  }
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
}

TEST(RecoveryStatementTest, PeerStatesNonsenseOrAPairThatDoesNotExist_TheConnectionFails) {
  const auto failure_after = [](uint8_t pair, uint32_t step) {
    RecoveryBed own;
    wire::PairStatement statement{};
    statement.serial_first = statement.serial_last = 1;
    statement.pair = pair;
    statement.step = step;
    own.sender.recovery->steps().on_statement(statement);
    return own.sender.link->failed() ? own.sender.link->failure().text : "";
  };
  EXPECT_EQ(failure_after(1, 0), "");
  EXPECT_TRUE(contains(failure_after(1, 7), "contradicts the protocol"));
  EXPECT_TRUE(contains(failure_after(2, 0), "a pair that this connection does not have"));
}

TEST_F(RecoveryTest, PairIsLost_IsLoggedOnceWhenTheEndsHaveAgreed) {
  RecordedLog log;
  bed.fail_pair(sender, 1);
  EXPECT_TRUE(sender.losses.empty());
  bed.settle();
  ASSERT_EQ(sender.losses.size(), 1u);
  EXPECT_TRUE(contains_all(
      sender.losses[0],
      {"fake_c:1 <-> ", "fake_d:1 is lost: RETRY_EXC_ERR; connections go on over fake_a:1. ",
       "Fix: "}));
  bed.run();
  skip_a_second();
  EXPECT_EQ(sender.losses.size(), 1u);
  ASSERT_EQ(sender.returns.size(), 1u);
  EXPECT_TRUE(sender.returns[0].starts_with("fake_c:1 <-> ")) << sender.returns[0];
  EXPECT_TRUE(sender.returns[0].ends_with("fake_d:1")) << sender.returns[0];
  bed.fail_pair(sender, 1, 1);
  bed.run();
  EXPECT_EQ(sender.losses.size(), 2u);
  EXPECT_EQ(log.lines("fake_c:1 <-> ").size(), 0u);
}

// That end has warned of it.
TEST_F(RecoveryTest, RailIsWithdrawn_ItsEndLogsNoWarningOfItsOwn) {
  EXPECT_TRUE(receiver.recovery->withdraw_rail(1, ENOMEM));
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
  sender.recovery->steps().on_tick(bed.now());
  EXPECT_EQ(sender.losses.size(), 1u);
  bed.verbs.release();
}

TEST_F(RecoveryTest, Closed_NoQueuePairIsTouchedOrNamed) {
  bed.fail_pair(sender, 1);
  EXPECT_NE(sender.recovery->state_text(), "");
  bed.tick(sender);
  bed.fail_pair(sender, 0);
  EXPECT_EQ(sender.recovery->steps().on_tick(bed.now()).stops, 1u);
  sender.recovery->close();
  sender.recovery->steps().stop_pairs(1);
  EXPECT_EQ(sender.recovery->state_text(), "") << "the watchdog's link outlives the QPs";
  bed.skip(5s);
  bed.tick(sender);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_ERR);
}

// Else the watcher, which wakes up at the deadline, would not sleep any more.
TEST_F(RecoveryTest, ConnectionHasFailed_NothingIsDueAndNoPairIsRevived) {
  bed.fail_pair(sender, 1);
  EXPECT_NE(sender.recovery->steps().deadline(), Clock::time_point::max());
  bed.run();
  sender.link->fail_link(Error{Code::kRemote, "it fails"}, false);
  bed.skip(1100ms);
  bed.tick();
  EXPECT_EQ(sender.recovery->steps().deadline(), Clock::time_point::max());
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

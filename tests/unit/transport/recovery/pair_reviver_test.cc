// How a pair that was lost returns, and when it is tried again.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using fake_verbs::Call;
using Kind = PairNews::Kind;

struct RecoveryRevivalTest : RecoveringEnds {
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
  // The receiver's end of pair 1 is as it was before it was connected.
  void take_back_to_init() {
    const verbs::Api& api = *bed.verbs.api();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(api.modify_qp(receiver.qp(1), &attr, IBV_QP_STATE), 0);
    StateChange init =
        to_init(receiver.connection.rails()[1].device(), receiver.qp(1), *receiver.options);
    ASSERT_EQ(api.modify_qp(receiver.qp(1), &init.attr, init.mask), 0);
  }
  // The receiver's QP, in whatever state it is, takes no send.
  void expect_return_by_reset() {
    bed.fail_pair(receiver, 1);
    receiver.link->count_posted();  // a receive that is announced over another pair
    bed.tick(receiver);
    EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_RESET);
    bed.run();
    skip_a_second();
    EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  }
  void lose(std::initializer_list<uint32_t> pairs) {
    for (uint32_t pair : pairs) bed.fail_pair(sender, pair);
    bed.run();
  }
  // As the kernel answers where nobody answers for the address.
  void fail_attempts(int count) { bed.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT, 0, count); }
  int attempts_to_fail() const { return bed.verbs.failures_left(Call::kModifyToRtr); }
};

// The connection would fail before the path counts as reachable again.
TEST_F(RecoveryRevivalTest, NoPairIsUsableAndNoPeerAnswers_BothEndsTryEverySecond) {
  lose({0, 1});
  fail_attempts(4 * 3);
  for (int second = 0; second < 3; ++second) {
    skip_a_second();
    EXPECT_EQ(attempts_to_fail(), 4 * (2 - second));
    EXPECT_EQ(sender.qp(0)->state, IBV_QPS_INIT);
  }
  skip_a_second();
  for (uint32_t pair : {0u, 1u}) {
    EXPECT_TRUE(sender.has_seen(Kind::kReturned, pair));
    EXPECT_TRUE(receiver.has_seen(Kind::kReturned, pair));
  }
}

TEST_F(RecoveryRevivalTest, AnotherPairIsUsable_TheAttemptIsSparedWhileThePathIsHeld) {
  lose({1});
  fail_attempts(2);  // one of each end
  skip_a_second();
  EXPECT_EQ(attempts_to_fail(), 0);
  fail_attempts(1);
  for (int second = 0; second < 25; ++second) skip_a_second();
  EXPECT_EQ(attempts_to_fail(), 1);
  for (int second = 0; second < 7; ++second) skip_a_second();
  EXPECT_EQ(attempts_to_fail(), 0) << "the pause did not grow meanwhile";
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

// Which it could do only since it has resolved this end's address.
TEST_F(RecoveryRevivalTest, PeerIsReadyAfterThisEndsAttemptFailed_ThisEndFollowsAtOnce) {
  lose({1});
  fail_attempts(1);
  skip_a_second();
  EXPECT_EQ(attempts_to_fail(), 0);
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

// As by another connection.
TEST_F(RecoveryRevivalTest, NoPairIsUsableAndThePathWasTriedAMomentAgo_IsTriedASecondLater) {
  lose({0, 1});
  bed.skip(500ms);
  const auto [local, remote] = sender.connection.end().ports_of(0);
  sender.unreachable.add(local, remote, bed.now());
  auto tick = [&](std::chrono::milliseconds later) {
    bed.skip(later);
    bed.tick(sender);
  };
  tick(600ms);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_ERR);
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
  tick(1100ms);
  EXPECT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
}

TEST_F(RecoveryRevivalTest, PairReturns_BothUseItAgainInTheNextEpoch) {
  bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  EXPECT_FALSE(sender.has_seen(Kind::kReturned, 1)) << "not before the pause";
  skip_a_second();
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

TEST_F(RecoveryRevivalTest, PairFailsAgain_TheNewEpochIsCountedFromZero) {
  for (int i = 0; i < 3; ++i) bed.send(1);
  bed.fail_pair(sender, 1);
  bed.run();
  skip_a_second();
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

// Its data path reads over the rail for the flush of what has arrived.
TEST_F(RecoveryRevivalTest, HcaIsGoneAfterSuchData_TheReceiverLearnsOfTheLoss) {
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

TEST_F(RecoveryRevivalTest, DataComesEarlyAndThePairStays_TheReceiverLearnsOfTheReturn) {
  let_it_return_to_the_sender();
  bed.send(1, 1);
  receiver.recovery->on_early_data(1);
  EXPECT_EQ(receiver.poll().size(), 1u);
  bed.run();
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  EXPECT_EQ(receiver.seen.back().epoch, 1u);
}

// The pair was not used in between, so that nothing new was lost with it.
TEST_F(RecoveryRevivalTest, ProbesFail_TheLossIsNotLoggedAgainAndThePairReturnsOnceOneSucceeds) {
  RecordedLog log;
  bed.fail_pair(sender, 1);
  bed.run();
  ASSERT_EQ(sender.losses.size(), 1u);
  fail_probe(1100ms);
  fail_probe(2100ms);
  fail_probe(4100ms);
  skip_a_second();
  EXPECT_EQ(sender.losses.size(), 1u);
  EXPECT_EQ(log.lines(" is lost: ").size(), 0u);
  EXPECT_EQ(log.lines("is not usable again yet: the probe of 4096 bytes failed with").size(), 2u)
      << "one of each end";
  bed.skip(8100ms);
  bed.run();
  for (RecoveringEnd* end : {&sender, &receiver}) {
    ASSERT_TRUE(end->has_seen(Kind::kReturned, 1));
    EXPECT_EQ(end->seen.back().epoch, 4u);
    EXPECT_FALSE(end->link->failed());
  }
  bed.send(1, 4);
  EXPECT_EQ(receiver.poll().size(), 1u);
  bed.fail_pair(sender, 1, 4);
  bed.run();
  EXPECT_EQ(log.lines(" is lost: ").size() + sender.losses.size(), 2u) << "it had returned";
}

// As through a switch with a smaller MTU: a packet of the largest size shows it.
TEST_F(RecoveryRevivalTest, PairReturns_BothEndsHaveWrittenAsMuchAsALargePacketHas) {
  sender.tables->operator->()->scratch.fill(0x5a);
  bed.fail_pair(sender, 1);
  bed.run();
  skip_a_second();
  ASSERT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  EXPECT_EQ(receiver.tables->operator->()->scratch, sender.tables->operator->()->scratch);
}

// A subnet manager's sweep, while the link is interrupted.
TEST_F(RecoveryRevivalTest, LidsOfBothPortsChange_ThePairReturnsOverThePresentOnes) {
  bed.fail_pair(sender, 1);
  bed.run();
  bed.verbs.port("fake_c", 1).lid = 77;
  bed.verbs.port("fake_d", 1).lid = 78;
  for (int second = 0; second < 4; ++second) skip_a_second();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
  EXPECT_EQ(bed.verbs.attributes(sender.qp(1)->qp_num).ah_attr.dlid, 78);
  EXPECT_EQ(bed.verbs.attributes(receiver.qp(1)->qp_num).ah_attr.dlid, 77);
}

TEST_F(RecoveryRevivalTest, PortIsActiveAndThePairDoesNotReturn_IsReportedAfterAMinuteOnly) {
  bed.fail_pair(sender, 1);
  bed.run();
  for (int pause : {1, 2, 4, 8, 16}) fail_probe(std::chrono::milliseconds(1000 * pause + 100));
  EXPECT_EQ(sender.stays_lost.size(), 0u);
  fail_probe(32100ms);
  ASSERT_EQ(sender.stays_lost.size(), 1u);
  EXPECT_TRUE(
      contains(sender.stays_lost[0],
               "fake_d:1: the probe of 4096 bytes failed with RETRY_EXC_ERR. Likely cause: "))
      << sender.stays_lost[0];
}

TEST_F(RecoveryRevivalTest, PeersPortIsDown_ThatThePairDoesNotReturnIsNotReported) {
  bed.port_event(receiver, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  fail_attempts(1000);
  for (int minute = 0; minute < 3; ++minute) {
    bed.skip(61s);
    bed.run();
  }
  EXPECT_LT(attempts_to_fail(), 1000);
  EXPECT_EQ(sender.stays_lost.size() + receiver.stays_lost.size(), 0u);
}

// Its loss is a new one, of which the ends have not had the time to agree.
TEST_F(RecoveryRevivalTest, ProbeIsRefused_ThePairIsLostAndTheAgreementAwaited) {
  bed.fail_pair(sender, 1);
  bed.run();
  bed.skip(1100ms);
  bed.tick();
  sender.losses.clear();
  bed.verbs.fail_call(fake_verbs::Call::kPostSend, EIO);
  bed.exchange();
  bed.tick(sender);
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
TEST_F(RecoveryRevivalTest, CompletionsOfTheLastEpochAreNotPolled_ThePairReturnsOnlyAfterwards) {
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
  EXPECT_EQ(sender.recovery->steps().deadline(), Clock::time_point::max())
      << "the watcher has to wait";
  sender.poll();
  bed.settle();
  EXPECT_EQ(sender.qp(1)->state, IBV_QPS_RTS);
}

// As where the send queue is full of what the data path has not polled yet.
TEST_F(RecoveryRevivalTest, EndOfTheSendQueueCannotBePosted_IsTriedAgainAndThePairReturns) {
  bed.fail_pair(sender, 1);
  bed.settle();
  EXPECT_EQ(sender.news().size(), 2u);
  bed.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  sender.recovery->finish(1);
  EXPECT_EQ(bed.verbs.failures_left(fake_verbs::Call::kPostSend), 0);
  bed.run();
  skip_a_second();
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
  EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 1));
}

TEST_F(RecoveryRevivalTest, AReceiveHasNotCompletedYet_ThePairDoesNotReturn) {
  receiver.recovery->arrivals(1).count_receives(1);
  bed.fail_pair(sender, 1);
  bed.run();
  skip_a_second();
  EXPECT_EQ(receiver.qp(1)->state, IBV_QPS_ERR);
}

// Of its receives, which may be only some, none is flushed.
TEST_F(RecoveryRevivalTest, PairWasOnlyInInit_ItGoesBackToReset) {
  take_back_to_init();
  EXPECT_EQ(
      receiver.connection.rails().post_receives(1, 5, encode(WorkId{WorkKind::kReceive, 1, 0, 0})),
      5);
  expect_return_by_reset();
}

// libmlx5 takes no send on such a QP, and so no marker that would end its send queue.
TEST_F(RecoveryRevivalTest, PairWasNeverReadyToSend_ItGoesBackToReset) {
  ibv_qp_attr to_rtr = bed.verbs.attributes(receiver.qp(1)->qp_num);
  take_back_to_init();
  to_rtr.qp_state = IBV_QPS_RTR;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(bed.verbs.api()->modify_qp(receiver.qp(1), &to_rtr, kMask), 0);
  expect_return_by_reset();
}

// Its send queue needs no marker, and the reviver uses the QP without the mutex.
TEST_F(RecoveryRevivalTest, PairWasNeverConnectedAndIsRevived_NothingIsPostedOnItMeanwhile) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(bed.verbs.api()->modify_qp(sender.qp(1), &attr, IBV_QP_STATE), 0);
  bed.fail_pair(sender, 1);
  bed.run();
  int left = -1;
  sender.while_reviving = [&]() -> Status {
    EXPECT_EQ(sender.qp(1)->state, IBV_QPS_INIT);
    bed.verbs.fail_call(fake_verbs::Call::kPostSend, EINVAL);
    sender.recovery->steps().on_tick(bed.now());
    left = bed.verbs.failures_left(fake_verbs::Call::kPostSend);
    bed.verbs.fail_call(fake_verbs::Call::kPostSend, 0, 0, 0);
    return {};
  };
  skip_a_second();
  EXPECT_EQ(left, 1);
  EXPECT_TRUE(sender.has_seen(Kind::kReturned, 1));
}

}  // namespace
}  // namespace gdr::transport

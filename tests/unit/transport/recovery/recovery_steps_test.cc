// When a connection that recovers ends, and when it waits for a rail instead.
#include <gtest/gtest.h>

#include "tests/unit/transport/recovery/recovery_bed.h"

namespace gdr::transport {
namespace {

using namespace std::chrono_literals;
using Kind = PairNews::Kind;

struct RecoveryEndTest : RecoveringEnds {
  // Both ends wait for something.
  void post() {
    sender.link->count_posted();
    receiver.link->count_posted();
  }
  void lose_both() {
    post();
    bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
    bed.run();
    bed.fail_pair(sender, 0);
    bed.run();
  }
  static void lose_socket(RecoveringEnd& end) {
    end.socket_works = false;
    const Clock::time_point now = Clock::now();
    end.link->on_socket_end(Error{Code::kRemote, "the socket ended", ETIMEDOUT}, now);
    end.link->on_tick(now + 3s);
    EXPECT_TRUE(end.link->deaf());
  }
};

TEST_F(RecoveryEndTest, NoRailReturns_BothEndsFailWithTheCauseOfEach) {
  post();
  bed.port_event(sender, 1, IBV_EVENT_PORT_ERR);
  bed.run();
  bed.verbs.port("fake_a", 1).active = false;
  bed.fail_pair(sender, 0);
  bed.run();
  EXPECT_FALSE(sender.link->failed());
  EXPECT_LE(sender.recovery->steps().deadline(), bed.now() + 35s) << "the watcher comes in time";
  skip_a_second();
  ASSERT_EQ(sender.losses.size(), 2u);
  EXPECT_TRUE(contains(sender.losses[0], "go on over fake_a:1")) << sender.losses[0];
  EXPECT_TRUE(
      contains_all(sender.losses[1],
                   {"fake_a:1 <-> ", "no rail is usable, so that connections wait 35 s at most"}));
  bed.skip(29s);
  bed.run();
  EXPECT_FALSE(sender.link->failed());
  bed.skip(5s);
  bed.run();
  ASSERT_TRUE(sender.link->failed());
  EXPECT_TRUE(receiver.link->failed());
  const std::string text = sender.link->failure().text;
  EXPECT_TRUE(contains_all(text, {"no rail is left, and none has returned for 3", "fake_a:1 <-> ",
                                  "fake_b:1: the port is down (RETRY_EXC_ERR)",
                                  "fake_d:1: the port is down", "Likely cause: a cable"}));
}

// The first rail of one end and the second one of the other.
TEST_F(RecoveryEndTest, AnotherPortIsDownAtEachEndFromTheStart_BothFailInTimeWithBothCauses) {
  bed.verbs.port("fake_a", 1).active = false;
  bed.verbs.port("fake_d", 1).active = false;
  sender.recovery->steps().look_at_rails();
  receiver.recovery->steps().look_at_rails();
  bed.run();
  post();
  bed.run();
  bed.skip(30s);
  bed.run();
  for (RecoveringEnd* end : {&sender, &receiver}) {
    EXPECT_FALSE(end->link->failed());
    EXPECT_FALSE(end->has_seen(Kind::kReturned, 0) || end->has_seen(Kind::kReturned, 1));
  }
  bed.skip(5s);
  for (RecoveringEnd* end : {&sender, &receiver}) {
    end->recovery->steps().on_tick(bed.now());  // each by itself
    ASSERT_TRUE(end->link->failed());
    const std::string text = end->link->failure().text;
    for (const char* port : {" fake_a:1", " fake_d:1"}) {
      const std::string part = "the port is down at " + std::string(sender.described().host) + port;
      EXPECT_TRUE(contains(text, part)) << part << " in " << text;
    }
    EXPECT_TRUE(contains(text, "no rail is left") && !contains(text, "the peer")) << text;
  }
}

TEST_F(RecoveryEndTest, HcaIsGone_TheLossSaysThatItDoesNotReturn) {
  EXPECT_TRUE(sender.recovery->on_lost_hca(1));
  bed.run();
  for (const RecoveringEnd* end : {&sender, &receiver}) {
    ASSERT_EQ(end->losses.size(), 1u);
    EXPECT_TRUE(contains(end->losses[0], "It is not used again for the rest of the job. "))
        << end->losses[0];
    EXPECT_FALSE(contains(end->losses[0], "returns")) << end->losses[0];
  }
}

// The end whose HCA is gone knows best; the other one is informed. The error says why; that the
// connection waits or goes on would be wrong.
TEST_F(RecoveryEndTest, NoRailCanReturn_TheConnectionFailsAtOnceAndNoLossIsLogged) {
  EXPECT_TRUE(sender.recovery->on_lost_hca(0));
  EXPECT_FALSE(sender.recovery->on_lost_hca(1));
  EXPECT_TRUE(sender.link->failed());
  EXPECT_TRUE(contains(sender.link->failure().text, "no rail is left. "));
  EXPECT_TRUE(sender.losses.empty());
  bed.settle();
  EXPECT_TRUE(receiver.link->failed());
}

// A rail that was given up works, but no end uses it again. What the peer has lost is known from a
// statement only, which is the last one.
TEST(RecoveryEnd, OtherRailIsGoneForGoodAtEitherEnd_NothingIsWaitedFor) {
  using Loss = bool (*)(RecoveryBed&);
  const Loss losses[] = {[](auto& bed) { return bed.sender.recovery->withdraw_rail(1, ENOMEM); },
                         [](auto& bed) { return bed.receiver.recovery->withdraw_rail(1, ENOMEM); },
                         [](auto& bed) { return bed.receiver.recovery->on_lost_hca(1); }};
  for (const Loss& lose : losses) {
    RecoveryBed bed;
    EXPECT_TRUE(lose(bed));
    bed.run();
    EXPECT_TRUE(bed.sender.has_seen(Kind::kAgreed, 1));
    EXPECT_FALSE(bed.sender.link->failed());
    bed.sender.recovery->on_lost_hca(0);
    EXPECT_TRUE(bed.sender.link->failed());
  }
}

TEST_F(RecoveryEndTest, RailIsWithdrawnLater_WhatFollowsIsDueLater) {
  bed.skip(1h);
  const Clock::time_point before = bed.now();
  EXPECT_TRUE(sender.recovery->withdraw_rail(1, ENOMEM));
  EXPECT_GE(sender.recovery->steps().deadline(), before);
}

// Nothing but another pair could carry what the ends would have to agree on.
TEST_F(RecoveryEndTest, SocketIsLostAndNoPairIsLeft_TheConnectionFailsAtOnce) {
  lose_socket(sender);
  bed.fail_pair(sender, 1);
  EXPECT_FALSE(sender.link->failed());
  bed.fail_pair(sender, 0);
  EXPECT_TRUE(sender.link->failed());
}

// It has nothing else by which it could inform a peer that has lost the socket.
TEST_F(RecoveryEndTest, ConnectionFails_ItsQueuePairsGoToErrorAtTheNextTick) {
  EXPECT_FALSE(sender.recovery->on_lost_hca(0) && sender.recovery->on_lost_hca(1));
  receiver.link->fail_link(Error{Code::kInternal, "the data path fails"}, false);
  bed.tick();
  for (uint32_t pair : {0u, 1u}) {
    EXPECT_EQ(sender.qp(pair)->state, IBV_QPS_ERR);
    EXPECT_EQ(receiver.qp(pair)->state, IBV_QPS_ERR);
  }
}

TEST_F(RecoveryEndTest, PeerFailsWithoutASocket_AWriteOfThisEndFails) {
  lose_socket(sender);
  lose_socket(receiver);
  receiver.link->fail_link(Error{Code::kInternal, "it fails"}, false);
  bed.tick(receiver);
  for (int probe = 0; probe < 2; ++probe) {
    EXPECT_TRUE(sender.recovery->probe_peer());
    sender.poll();
  }
  EXPECT_TRUE(sender.link->failed());
}

// Else it would see only once a second what the peer has stated by RDMA.
TEST_F(RecoveryEndTest, SocketIsLost_TheWatcherComesOften) {
  lose_socket(sender);
  sender.recovery->steps().on_tick(bed.now());
  EXPECT_LE(sender.recovery->steps().deadline(), bed.now() + 100ms);
}

// A rank that has sent all: the receiver still has to flush, or announces its next receive.
TEST(RecoveryEnd, SenderHasNothingToDoAndIsNotCalled_PairsReturnForTheReceiver) {
  for (size_t last_news : {0, 1, 4}) {  // that its data path takes, of the first of three losses
    RecoveryBed bed;
    RecoveringEnd &sender = bed.sender, &receiver = bed.receiver;
    receiver.link->count_posted();
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      receiver.seen.clear();
      for (uint32_t pair : {0u, 1u}) receiver.recovery->on_failed_post(pair, epoch);
      for (int i = 0; i < 100; ++i) {
        bed.skip(100ms);
        bed.settle();
        receiver.poll();
        receiver.follow_news();
        const bool takes = epoch == 0 && i == 2;
        for (size_t n = 0; takes && n < last_news; ++n) sender.follow_news(/*most=*/1);
      }
      EXPECT_TRUE(receiver.has_seen(Kind::kReturned, 0) && receiver.has_seen(Kind::kReturned, 1));
    }
    EXPECT_FALSE(receiver.link->failed());
    bed.run();
    for (uint32_t pair : {0u, 1u}) EXPECT_TRUE(sender.has_seen(Kind::kReturned, pair));
    EXPECT_EQ(sender.seen.back().epoch, 3u);
  }
}

// Both ranks compute; or one waits for a receive that the other has yet to post.
TEST(RecoveryEnd, NothingIsOutstanding_TheirTimeDoesNotPass) {
  for (const bool sender_is_called : {false, true}) {
    RecoveryBed bed;
    for (uint32_t pair : {0u, 1u}) bed.sender.recovery->on_failed_post(pair, 0);
    for (int i = 0; i < 60; ++i) {
      bed.skip(1s);
      bed.settle();
      if (sender_is_called) bed.sender.poll();
      if (sender_is_called) bed.sender.follow_news();
    }
    bed.run();
    bed.skip(1100ms);
    bed.run();
    for (const RecoveringEnd* end : {&bed.sender, &bed.receiver}) {
      EXPECT_FALSE(end->link->failed());
      EXPECT_TRUE(end->has_seen(Kind::kReturned, 0) && end->has_seen(Kind::kReturned, 1));
    }
  }
}

// The end would wait for it as long as the HCA retries.
TEST_F(RecoveryEndTest, TimeIsOver_NoPairIsRevivedAnyMore) {
  lose_both();
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  bed.verbs.hold();  // the probe of pair 0 stays outstanding
  bed.skip(1100ms);
  bed.settle();
  ASSERT_EQ(sender.qp(0)->state, IBV_QPS_RTS);
  bed.skip(40s);
  bed.settle();
  EXPECT_FALSE(sender.link->failed());
  bed.fail_pair(sender, 0, 1);
  if (sender.qp(1)->state == IBV_QPS_RTS) bed.fail_pair(sender, 1, 1);
  EXPECT_TRUE(sender.link->failed());
  bed.verbs.release();
}

TEST_F(RecoveryEndTest, TimeIsOverAndAPortReturns_TheWatcherSleepsUntilTheProbeEnds) {
  lose_both();
  bed.verbs.hold();
  bed.skip(1100ms);
  bed.settle();
  bed.skip(40s);
  bed.settle();
  bed.port_event(sender, 1, IBV_EVENT_PORT_ACTIVE);
  const Clock::time_point now = bed.now();
  EXPECT_FALSE(sender.recovery->steps().on_tick(now).revives);
  EXPECT_FALSE(sender.link->failed());
  EXPECT_GT(sender.recovery->steps().deadline(), now);
  bed.verbs.release();
}

}  // namespace
}  // namespace gdr::transport

// How the sends of a grouped receive are gathered into one chain.
#include "transport/data/chunk_chain.h"

#include "tests/unit/transport/data/held_groups.h"

namespace gdr::transport {
namespace {

TEST(HeldGroups, WholeGroup_GoesInOrderWithOneDoorbellAndOneCompletion) {
  GroupsWithStandby test;
  const uint64_t before = test.link().completed();
  Request* receive = test.irecv(8);
  test.isend_up_to(7);
  EXPECT_TRUE(test.posted().empty());
  test.isend(7);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 8u);
  for (size_t i = 0; i < posted.size(); ++i) {
    EXPECT_EQ(posted[i].doorbell, posted[0].doorbell);
    EXPECT_EQ(posted[i].is_signalled(), i == 7) << i;
    EXPECT_EQ(immediate_of(posted[i]).slot, immediate_of(posted[0]).slot + i);
  }
  EXPECT_TRUE(test.all_arrive(receive));
  test.expect_bytes(8);
  EXPECT_EQ(test.link().completed() - before, 8u);
}

TEST(HeldGroups, ChainNotAcknowledged_NoneOfItsRequestsIsDone) {
  GroupsWithStandby test;
  ASSERT_NE(test.irecv(2), nullptr);
  test.pair.verbs.hold();
  test.isend_up_to(2);
  EXPECT_EQ(test.pair.verbs.deliver_on(qp_number(*test.pair.sender)), 1);
  for (Request* send : test.sends) EXPECT_FALSE(test_once(send).done);
  test.pair.verbs.release();
  test.expect_all_done();
}

TEST(HeldGroups, IncompleteGroup_GoesAtTheSecondPollSinceTheLastMessage) {
  GroupsWithStandby test;
  Request* receive = test.irecv(8);
  test.isend_up_to(2);
  EXPECT_FALSE(test_once(test.sends[0]).done);
  test.isend_up_to(3);
  EXPECT_FALSE(test_once(test.sends[1]).done);
  EXPECT_TRUE(test.posted().empty());
  EXPECT_FALSE(test.link().is_idle());
  EXPECT_TRUE(test_once(test.sends[0]).done) << "whichever request is tested";
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_EQ(posted[0].doorbell, posted[2].doorbell);
  EXPECT_TRUE(test_once(test.sends[1]).done && test_once(test.sends[2]).done);
  test.isend_up_to(8);
  EXPECT_EQ(test.posted().size(), 8u);
  test.sends.erase(test.sends.begin(), test.sends.begin() + 3);
  EXPECT_TRUE(test.all_arrive(receive));
  EXPECT_TRUE(test.link().is_idle());
}

TEST(HeldGroups, IsendThatFindsNoBuffer_CountsAsAPoll) {
  GroupsWithStandby test;
  Request* receive = test.irecv(2);
  test.isend(0);
  EXPECT_EQ(test.try_isend(0), nullptr);
  EXPECT_TRUE(test.posted().empty());
  EXPECT_EQ(test.try_isend(0), nullptr);
  EXPECT_EQ(test.posted().size(), 1u);
  test.isend(1);
  EXPECT_TRUE(test.all_arrive(receive));
}

// More groups than there are requests, so that each request is used again, in chains and alone.
TEST(HeldGroups, ManyGroupsAndSingleReceives_EveryRequestCompletesOnce) {
  GroupsWithStandby test;
  const uint64_t before = test.link().completed();
  for (int i = 0; i < 100; ++i) {
    const int count = 1 + i % 8;
    Request* receive = test.irecv(count);
    ASSERT_NE(receive, nullptr) << i;
    test.isend_up_to(count);
    ASSERT_TRUE(test.all_arrive(receive)) << i;
  }
  EXPECT_EQ(test.link().completed() - before, 12u * 36 + 10);
  test.pair.exchange({8, 1 << 20});
}

TEST(HeldGroups, SeparateEnds_AreInTheChainBehindTheirData) {
  GroupsWithStandby test(adaptive_options());
  Request* receive = test.irecv(8);
  test.isend_up_to(8);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 16u);
  for (size_t i = 0; i < posted.size(); ++i) {
    EXPECT_EQ(posted[i].doorbell, posted[0].doorbell);
    EXPECT_EQ(posted[i].opcode, i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM) << i;
    EXPECT_EQ(posted[i].is_signalled(), i == 15) << i;
  }
  EXPECT_TRUE(test.all_arrive(receive));
  test.expect_bytes(8);
}

TEST(HeldGroups, SeveralQps_AGroupTakesOneAndTheNextAnother) {
  GroupsWithStandby test(options_of_qps(2, /*split=*/false));
  std::vector<uint32_t> taken;
  for (int group = 0; group < 2; ++group) {
    Request* receive = test.irecv(8);
    test.isend_up_to(8);
    const auto posted = test.posted();
    ASSERT_EQ(posted.size(), 8u);
    taken.push_back(posted[0].qp_num);
    for (const auto& work : posted) {
      EXPECT_EQ(work.qp_num, taken.back());
      EXPECT_EQ(work.doorbell, posted[0].doorbell);
    }
    EXPECT_TRUE(test.all_arrive(receive));
    test.pair.verbs.forget_posted();
  }
  EXPECT_NE(taken[0], taken[1]);
}

// A message of several chunks does not wait, and what is held goes ahead of it, here inline.
TEST(HeldGroups, SplitMessageInAGroup_FollowsThoseBeforeIt) {
  GroupsWithStandby test(options_of_qps(2, /*split=*/true));
  Buffer small = test.pair.sender_buffer(8, 'y');
  Buffer small_target = test.pair.receiver_buffer(8), last_target = test.pair.receiver_buffer(8);
  Buffer split = test.pair.sender_buffer(1000, 'x');
  Buffer to = test.pair.receiver_buffer(1000);
  Request* receive =
      test.pair.irecv({small_target.receive(8, 0), to.receive(1000, 1), last_target.receive(8, 2)});
  test.sends.push_back(test.pair.isend(small, 0));
  EXPECT_TRUE(test.posted().empty());
  test.sends.push_back(test.pair.isend(split, 1));
  ASSERT_NE(test.sends.back(), nullptr);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_EQ(posted[0].bytes, 8u);
  EXPECT_NE(posted[1].qp_num, posted[2].qp_num);
  for (const auto& work : posted) EXPECT_TRUE(work.is_signalled());
  test.sends.push_back(test.pair.isend(small, 2));
  EXPECT_EQ(test.posted().size(), 4u);
  EXPECT_TRUE(test.all_arrive(receive));
  EXPECT_EQ(small_target.bytes, small.bytes);
  EXPECT_EQ(to.bytes, split.bytes);
  EXPECT_EQ(last_target.bytes, small.bytes);
}

TEST(HeldGroups, ConnectionFails_WhatIsHeldIsNotPosted) {
  GroupsWithStandby test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(3);
  test.pair.sender->connection().fail(Code::kRemote, "the peer is gone");
  test.expect_all_failed();
  test.expect_all_failed();
  EXPECT_TRUE(test.posted().empty());
}

TEST(HeldGroups, Close_WhatIsHeldIsNotPosted) {
  GroupsWithStandby test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(3);
  test.from.memory.reset();
  test.pair.sender.reset();
  EXPECT_TRUE(test.posted().empty());
}

// Nothing recovers.
TEST(ChunkChain, PostFailsInTheMiddleOfAChain_FailsTheConnection) {
  GroupedMessages<CommPair> test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(7);
  test.pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM, /*skip=*/3);
  Request* last = nullptr;
  EXPECT_FALSE(test.pair.sender->isend(test.from.data(), test.kBytes, 7, *test.from.memory, &last));
  EXPECT_EQ(last, nullptr);
  EXPECT_TRUE(contains(failure_of(*test.pair.sender).text, "posting a send"));
  test.expect_all_failed();
}

}  // namespace
}  // namespace gdr::transport

// How the sends of a grouped receive are gathered into one chain.
#include "transport/data/held_writes.h"

#include "tests/unit/transport/grouped_messages.h"
#include "tests/unit/transport/recording_observer.h"

namespace gdr::transport {
namespace {

constexpr size_t kHeldBytes = GroupedMessages<CommPair>::kBytes;

TransportOptions over_qps(int qps, bool split) {
  TransportOptions options = test_options();
  options.connection.qps_per_connection = qps;
  options.connection.split_data_on_qps = split;
  return options;
}

struct Grouped : GroupedMessages<CommPair> {
  explicit Grouped(const TransportOptions& options = test_options()) : GroupedMessages(options) {}
  std::vector<fake_verbs::Posted> posted() { return pair.posted_by(*pair.sender); }
};

TEST(HeldWrites, WholeGroup_GoesInOrderWithOneDoorbellAndOneCompletion) {
  Grouped test;
  Request* receive = test.irecv(8);
  test.isend_up_to(7);
  EXPECT_TRUE(test.posted().empty());
  test.isend(7);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 8u);
  for (size_t i = 0; i < posted.size(); ++i) {
    EXPECT_EQ(posted[i].doorbell, posted[0].doorbell);
    EXPECT_EQ(posted[i].is_signalled(), i == 7) << i;
    EXPECT_EQ(immediate_of(posted[i]).slot, i);
  }
  EXPECT_TRUE(finish(receive).done);
  test.expect_all_done();
  test.expect_bytes(8);
}

TEST(HeldWrites, ChainNotAcknowledged_NoneOfItsRequestsIsDone) {
  Grouped test;
  ASSERT_NE(test.irecv(2), nullptr);
  test.pair.verbs.hold();
  test.isend_up_to(2);
  EXPECT_EQ(test.pair.verbs.deliver(), 1);
  for (Request* send : test.sends) EXPECT_FALSE(test_once(send).done);
  test.pair.verbs.release();
  test.expect_all_done();
}

TEST(HeldWrites, IncompleteGroup_GoesAtTheSecondPollSinceTheLastMessage) {
  Grouped test;
  Request* receive = test.irecv(8);
  test.isend_up_to(2);
  EXPECT_FALSE(test_once(test.sends[0]).done);
  test.isend_up_to(3);
  EXPECT_FALSE(test_once(test.sends[1]).done);
  EXPECT_TRUE(test.posted().empty());
  EXPECT_TRUE(test_once(test.sends[0]).done) << "whichever request is tested";
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_EQ(posted[0].doorbell, posted[2].doorbell);
  EXPECT_TRUE(test_once(test.sends[1]).done && test_once(test.sends[2]).done);
  test.isend_up_to(8);
  EXPECT_EQ(test.posted().size(), 8u);
  EXPECT_TRUE(finish(receive).done);
}

TEST(HeldWrites, IsendThatFindsNoBuffer_CountsAsAPoll) {
  Grouped test;
  ASSERT_NE(test.irecv(2), nullptr);
  test.isend(0);
  EXPECT_EQ(test.pair.isend(test.from.data(), kHeldBytes, test.from, 0), nullptr);
  EXPECT_TRUE(test.posted().empty());
  EXPECT_EQ(test.pair.isend(test.from.data(), kHeldBytes, test.from, 0), nullptr);
  EXPECT_EQ(test.posted().size(), 1u);
  test.isend(1);
  test.expect_all_done();
}

// More groups than there are requests, so that each request is used again, in chains and alone.
TEST(HeldWrites, ManyGroupsAndSingleReceives_EveryRequestCompletesOnce) {
  Grouped test;
  const uint64_t before = test.pair.sender->connection().link().completed();
  for (int i = 0; i < 100; ++i) {
    const int count = 1 + i % 8;
    Request* receive = test.irecv(count);
    ASSERT_NE(receive, nullptr) << i;
    test.isend_up_to(count);
    ASSERT_TRUE(finish(receive).done) << i;
    test.expect_all_done();
  }
  EXPECT_EQ(test.pair.sender->connection().link().completed() - before, 12u * 36 + 10);
  test.pair.exchange(1);
}

TEST(HeldWrites, SeparateEnds_AreInTheChainBehindTheirData) {
  Grouped test(adaptive_options());
  Request* receive = test.irecv(8);
  test.isend_up_to(8);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 16u);
  for (size_t i = 0; i < posted.size(); ++i) {
    EXPECT_EQ(posted[i].doorbell, posted[0].doorbell);
    EXPECT_EQ(posted[i].opcode, i % 2 == 0 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM) << i;
    EXPECT_EQ(posted[i].is_signalled(), i == 15) << i;
  }
  EXPECT_TRUE(finish(receive).done);
  test.expect_all_done();
}

TEST(HeldWrites, SeveralQps_AGroupTakesOneAndTheNextAnother) {
  Grouped test(over_qps(2, /*split=*/false));
  for (int group = 0; group < 2; ++group) {
    Request* receive = test.irecv(8);
    test.isend_up_to(8);
    const auto posted = test.posted();
    ASSERT_EQ(posted.size(), 8u);
    for (const auto& work : posted) {
      EXPECT_EQ(work.qp_num, qp_number(*test.pair.sender, group));
      EXPECT_EQ(work.doorbell, posted[0].doorbell);
    }
    test.pair.verbs.forget_posted();
    EXPECT_TRUE(finish(receive).done);
    test.expect_all_done();
  }
}

// A message of several chunks does not wait, and what is held goes ahead of it.
TEST(HeldWrites, SplitMessageInAGroup_FollowsThoseBeforeIt) {
  CommPair pair(over_qps(2, /*split=*/true));
  Buffer from = pair.sender_buffer(1000);
  Buffer to = pair.receiver_buffer(2000);
  Request* receive = pair.irecv({{to.data(), 1000, 0, to.memory.get()},
                                 {to.data() + 1000, 1000, 1, to.memory.get()},
                                 {to.data(), 8, 2, to.memory.get()}});
  Request* small = pair.isend(from.data(), 8, from, 0);
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  Request* split = pair.isend(from.data(), 1000, from, 1);
  const auto posted = pair.posted_by(*pair.sender);
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_EQ(posted[0].bytes, 8u);
  EXPECT_TRUE(posted[0].is_signalled() && posted[1].is_signalled() && posted[2].is_signalled());
  Request* last = pair.isend(from.data(), 8, from, 2);
  EXPECT_EQ(pair.posted_by(*pair.sender).size(), 4u);
  for (Request* request : {small, split, last, receive}) EXPECT_TRUE(finish(request).done);
}

TEST(HeldWrites, PostFailsInTheMiddleOfAChain_FailsTheConnection) {
  Grouped test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(7);
  test.pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM, /*skip=*/3);
  Request* last = nullptr;
  EXPECT_FALSE(test.pair.sender->isend(test.from.data(), kHeldBytes, 7, *test.from.memory, &last));
  EXPECT_EQ(last, nullptr);
  EXPECT_EQ(test.posted().size(), 3u);
  EXPECT_TRUE(contains(failure_of(*test.pair.sender).text, "posting a send"));
  test.expect_all_failed();
}

TEST(HeldWrites, PostFailsAtAPoll_FailsTheConnection) {
  Grouped test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(2);
  test.pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM, /*skip=*/1);
  EXPECT_TRUE(test_once(test.sends[0]).alive);
  EXPECT_FALSE(test_once(test.sends[0]).alive);
  test.expect_all_failed();
}

// An unsignalled write that fails has a completion all the same.
TEST(HeldWrites, WriteFailsInTheMiddleOfAChain_FailsTheConnection) {
  Grouped test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.pair.verbs.fail_transfer(IBV_WC_REM_ACCESS_ERR, /*skip=*/3);
  test.isend_up_to(8);
  test.expect_all_failed();
}

TEST(HeldWrites, ConnectionFails_WhatIsHeldIsNotPosted) {
  Grouped test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(3);
  test.pair.sender->connection().fail(Code::kRemote, "the peer is gone");
  test.expect_all_failed();
  test.expect_all_failed();
  EXPECT_TRUE(test.posted().empty());
}

TEST(HeldWrites, Close_WhatIsHeldIsNotPosted) {
  Grouped test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(3);
  test.pair.verbs.forget_posted();
  test.from.memory.reset();
  test.pair.sender.reset();
  EXPECT_TRUE(test.pair.verbs.posted().empty());
}

TEST(HeldWrites, ObservedGroup_EventsStartInIsendAndEndWithTheChain) {
  RecordingObserver recorder;
  Grouped test(recorder.options(test_options()));
  ASSERT_NE(test.irecv(8), nullptr);
  int parent = 0;
  for (int tag = 0; tag < 8; ++tag) {
    Request* send = nullptr;
    ASSERT_TRUE(test.pair.sender->isend_observed(test.from.data(), kHeldBytes, tag,
                                                 *test.from.memory, &parent, &send));
    test.sends.push_back(send);
    ASSERT_EQ(recorder.events.size(), static_cast<size_t>(tag) + 1);
    EXPECT_EQ(recorder.events.back().completions, 0);
  }
  test.expect_all_done();
  for (const RecordingObserver::Event& event : recorder.events) EXPECT_EQ(event.completions, 1);
}

}  // namespace
}  // namespace gdr::transport

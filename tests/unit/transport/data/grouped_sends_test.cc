// Groups on a connection with a standby rail: what of theirs is not chained, and what becomes of a
// chain whose pair is lost. chunk_chain_test.cc has what holds without a standby rail, too; the
// fuzz target `standby` shows that all messages arrive, whenever a pair is lost or a post refused.
#include "tests/unit/transport/data/held_groups.h"
#include "tests/unit/transport/recording_observer.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

// What is held occupies the queue: its 119 entries take 59 messages of two requests each.
TEST(GroupedSends, SendQueueIsFullOfHeldWrites_NextMessageWaits) {
  GroupsWithStandby test(adaptive_options());
  std::vector<Request*> receives;
  for (int group = 0; group < 10; ++group) {
    receives.push_back(test.irecv(8));
    ASSERT_NE(receives.back(), nullptr);
  }
  ASSERT_TRUE(test.pair.poll_until([] { return true; }));
  test.pair.verbs.hold();
  std::vector<Request*> sends;
  for (int n = 0; n < 59; ++n) {
    sends.push_back(test.try_isend(n % 8));
    ASSERT_NE(sends.back(), nullptr) << n;
  }
  EXPECT_EQ(test.pair.chunks().size(), 56u);
  EXPECT_EQ(test.try_isend(3), nullptr);
  EXPECT_EQ(test.pair.chunks().size(), 59u) << "the one that waits is not of the chain";
  test.pair.verbs.release();
  for (Request* send : sends) EXPECT_TRUE(finish(send).done);
  test.sends.resize(3);
  test.isend_up_to(8);
  test.sends.erase(test.sends.begin(), test.sends.begin() + 3);
  EXPECT_TRUE(test.all_arrive(receives[7]));
}

// ---- what is not chained

TEST(GroupedSends, SeveralActiveRails_EachMessageIsPostedAtOnce) {
  GroupedMessages<SpreadRails> test(2, 0);
  ASSERT_NE(test.irecv(8), nullptr);
  for (int tag = 0; tag < 8; ++tag) {
    test.isend(tag);
    ASSERT_EQ(test.pair.chunks().size(), static_cast<size_t>(tag) + 1);
    EXPECT_TRUE(test.pair.chunks().back().is_signalled());
  }
  test.expect_all_done();
}

// The standby rail is lost: nothing of that concerns the chain.
TEST(GroupedSends, RecoveryHasNews_MessageIsPostedAtOnceBehindThoseHeld) {
  GroupsWithStandby test;
  Request* receive = test.irecv(8);
  test.isend_up_to(2);
  test.pair.set_port('s', 1, false);
  ASSERT_TRUE(wait_for([&] { return test.link().needs_attention(); }));
  test.isend(2);
  const auto posted = test.posted();
  ASSERT_EQ(posted.size(), 3u);
  EXPECT_EQ(posted[0].doorbell, posted[1].doorbell);
  EXPECT_EQ(posted[2].doorbell, posted[0].doorbell + 1);
  EXPECT_FALSE(posted[0].is_signalled());
  EXPECT_TRUE(posted[1].is_signalled() && posted[2].is_signalled());
  test.isend_up_to(8);
  EXPECT_EQ(test.posted().size(), 8u);
  EXPECT_TRUE(test.all_arrive(receive));
  test.expect_bytes(8);
}

TEST(GroupedSends, ActiveRailIsLost_GroupsGoOverTheStandbyRailOneByOne) {
  GroupsWithStandby test;
  test.pair.lose_first_rail();
  test.pair.exchange({8});
  test.pair.verbs.forget_posted();
  Request* receive = nullptr;
  ASSERT_TRUE(test.pair.poll_until([&] { return (receive = test.irecv(8)) != nullptr; }));
  for (int tag = 0; tag < 8; ++tag) {
    test.isend_soon(tag);
    ASSERT_EQ(test.pair.chunks(1).size(), static_cast<size_t>(tag) + 1);
  }
  EXPECT_TRUE(test.all_arrive(receive));
  test.expect_bytes(8);
}

TEST(GroupedSends, PeerMakesAGroupTheOnlyBuffer_NothingGoesAheadOfWhatIsHeld) {
  GroupsWithStandby test;
  ASSERT_NE(test.irecv(8), nullptr);
  test.isend_up_to(3);
  for (wire::ClearToSend& slot : tables_of(*test.pair.sender).ring) slot.group_and_flags = 1;
  EXPECT_EQ(test.try_isend(0), nullptr) << "its buffer is served";
  EXPECT_TRUE(test.posted().empty());
  EXPECT_EQ(test.try_isend(0), nullptr);
  EXPECT_EQ(test.posted().size(), 3u);
  test.expect_all_done();
  EXPECT_TRUE(test.link().is_idle());
}

// ---- loss of the pair

TEST(GroupedSends, PairIsLostWhileMessagesAreHeld_TheyGoOnceOverTheStandbyRail) {
  GroupsWithStandby test;
  Request* receive = test.irecv(8);
  test.isend_up_to(3);
  test.pair.set_port('s', 0, false);
  ASSERT_TRUE(wait_for([&] { return test.link().needs_attention(); }));
  EXPECT_FALSE(test_once(test.sends[0]).done);  // the first poll, which takes the news
  ASSERT_TRUE(wait_for([&] {
    (void)test_once(receive);
    (void)test_once(test.sends[1]);
    return test.pair.chunks(1).size() == 3;
  }));
  for (int tag = 3; tag < 8; ++tag) test.isend_soon(tag);
  EXPECT_TRUE(test.all_arrive(receive)) << failure_of(*test.pair.sender).text;
  test.expect_bytes(8);
  EXPECT_TRUE(test.posted(0).empty());
  EXPECT_EQ(test.pair.chunks(1).size(), 8u);
}

TEST(GroupedSends, PostFailsInTheMiddleOfAChain_EachMessageArrivesOnce) {
  GroupsWithStandby test;
  Request* receive = test.irecv(8);
  test.isend_up_to(7);
  test.pair.verbs.fail_call(Call::kPostSend, ENOMEM, /*skip=*/3);
  test.isend(7);
  EXPECT_EQ(test.posted(0).size(), 3u);
  EXPECT_TRUE(test.all_arrive(receive)) << failure_of(*test.pair.sender).text;
  test.expect_bytes(8);
  EXPECT_EQ(test.posted(0).size(), 3u);
  EXPECT_EQ(test.pair.chunks(1).size(), 8u) << "the HCA did not send those that it had taken";
  test.pair.exchange({8});
}

// How many of a chain's writes are executed when the next one fails, and whether that arrives.
class LostChain : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(LostChain, OnlyWhatHasNotArrivedIsSentAgain) {
  const auto [delivered, arrives] = GetParam();
  RecordingObserver observer;
  GroupsWithStandby test(observer.options());
  const uint64_t before = test.link().completed();
  Request* receive = test.irecv(8);
  test.pair.verbs.hold();
  int parent = 0;
  for (int tag = 0; tag < 8; ++tag) ASSERT_NO_FATAL_FAILURE(test.isend_observed(tag, &parent));
  ASSERT_EQ(test.posted(0).size(), 8u);
  EXPECT_EQ(test.posted(0).front().doorbell, test.posted(0).back().doorbell);
  test.pair.lose_after(0, delivered, arrives);
  test.pair.verbs.release();
  EXPECT_TRUE(test.all_arrive(receive)) << failure_of(*test.pair.sender).text;
  test.expect_bytes(8);
  EXPECT_EQ(test.posted(0).size(), 8u);
  EXPECT_EQ(test.pair.chunks(1).size(), static_cast<size_t>(8 - delivered - (arrives ? 1 : 0)));
  EXPECT_EQ(test.link().completed() - before, 8u);
  EXPECT_EQ(observer.events.size(), 8u);
  EXPECT_TRUE(observer.each_completed_once());
}

INSTANTIATE_TEST_SUITE_P(GroupedSends, LostChain,
                         testing::Combine(testing::Values(0, 1, 4, 7), testing::Bool()));

// The lost pair's message goes over the pair for which others are held, and they go first.
TEST(GroupedSends, MessageOfAnotherPairIsMoved_FollowsThoseHeld) {
  GroupsWithStandby test(options_of_qps(2, /*split=*/false));
  Buffer to = test.pair.receiver_buffer(50);
  Buffer alone = test.pair.sender_buffer(50, 'y');
  Request* first = test.pair.irecv(to);
  Request* receive = test.irecv(2);
  test.pair.verbs.hold();
  Request* sent = test.pair.isend(alone);
  ASSERT_NE(sent, nullptr);
  const int lost = static_cast<int>(decode_work_id(test.pair.chunks().front().wr_id).pair);
  test.isend(0);
  ASSERT_EQ(test.pair.chunks().size(), 1u);
  const Recovery& recovery = test.pair.recovery_of(*test.pair.sender);
  test.pair.verbs.break_qp(qp_number(*test.pair.receiver, lost));
  ASSERT_TRUE(wait_for([&] {
    (void)test_once(first);
    return recovery.has_news() && !contains(recovery.state_text(), "not agreed");
  }));
  EXPECT_TRUE(test.pair.sender->progress());  // one poll, after which they might be held yet
  const auto posted = test.posted(1 - lost);
  ASSERT_EQ(posted.size(), 2u);
  EXPECT_EQ(posted[0].bytes, GroupsWithStandby::kBytes);
  EXPECT_EQ(posted[1].bytes, 50u);
  EXPECT_EQ(decode_work_id(posted[1].wr_id).ordinal, decode_work_id(posted[0].wr_id).ordinal + 1);
  test.pair.verbs.release();
  test.isend_soon(1);
  test.sends.push_back(sent);
  test.sends.push_back(first);
  EXPECT_TRUE(test.all_arrive(receive)) << failure_of(*test.pair.sender).text;
  EXPECT_EQ(to.bytes, alone.bytes);
}

}  // namespace
}  // namespace gdr::transport

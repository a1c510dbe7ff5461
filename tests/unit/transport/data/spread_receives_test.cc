#include "transport/data/spread_receives.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {
namespace {

const std::vector<size_t> kSizes{0, 1, 100, 8192, 70000, 300000, 1 << 20};

// A sender that avoids a rail has a reason to, by which clear-to-send over it would be late, too.
TEST(SpreadReceivesTest, DataComesOverOneRail_ClearToSendIsWrittenThere) {
  RailsPair pair(2);
  const auto announcer = [&] {
    return pair.receiver->connection().rails().clear_to_send_pair().index;
  };
  Buffer first = pair.sender_buffer(120000);  // a chunk of some microseconds
  Buffer to = pair.receiver_buffer(120000);
  Request* receive = pair.irecv(to);
  pair.verbs.hold();
  Request* send = pair.isend(first);
  ASSERT_NE(send, nullptr);
  ASSERT_EQ(pair.posted_on(*pair.sender, 0, WorkKind::kChunk), 1u) << "it is held up there";
  for (int i = 0; i < RailSet::kReceiveBatch; ++i) {
    ASSERT_EQ(announcer(), 0u) << i;
    Buffer from = pair.sender_buffer(8);
    Buffer next = pair.receiver_buffer(8);
    Request* receive_next = pair.irecv(next);
    ASSERT_EQ(pair.verbs.deliver_on(qp_number(*pair.receiver, 0)), 1);
    Request* send_next = pair.isend(from);
    ASSERT_NE(send_next, nullptr);
    ASSERT_EQ(pair.verbs.deliver_on(qp_number(*pair.sender, 1)), 1);
    ASSERT_TRUE(pair.finish_both(send_next, receive_next));
  }
  EXPECT_EQ(pair.irecv(to), nullptr) << "until all that was announced before is confirmed";
  EXPECT_EQ(announcer(), 0u);
  ASSERT_EQ(pair.verbs.deliver_on(qp_number(*pair.receiver, 0)), 1);
  EXPECT_TRUE(pair.poll_until([&] { return announcer() == 1u; }));
  pair.verbs.release();
  ASSERT_TRUE(pair.finish_both(send, receive));
  EXPECT_EQ(first.bytes, to.bytes);
  pair.verbs.forget_posted();
  pair.exchange(kSizes);
  EXPECT_EQ(pair.posted_on(*pair.receiver, 0, WorkKind::kClearToSend), 0u);
}

TEST(SpreadReceivesTest, DataComesOverBothRails_ClearToSendStays) {
  RailsPair pair(2);
  pair.exchange(std::vector<size_t>(6 * RailSet::kReceiveBatch, 8));
  EXPECT_EQ(pair.receiver->connection().rails().clear_to_send_pair().index, 0u);
  EXPECT_EQ(pair.posted_on(*pair.receiver, 1, WorkKind::kClearToSend), 0u);
}

// A socket for each end, whose other end is closed.
std::array<UniqueFd, 2> lost_sockets() {
  std::array<UniqueFd, 2> sockets = local_socket_pair();
  sockets[1] = std::move(local_socket_pair()[0]);
  return sockets;
}

// A connection of three rails whose fabric holds everything back. Rail 0 and another one carry a
// large message each, so that small messages go over the third.
struct BusyRails : RailsPair {
  BusyRails() : RailsPair(3) {
    for (Request*& receive : receives_large) receive = irecv(to_large);
    verbs.hold();
    for (Request*& send : sends_large) send = isend(large);
    EXPECT_EQ(posted_on(*sender, 0, WorkKind::kChunk), 1u);
    idle = posted_on(*sender, 1, WorkKind::kChunk) == 0 ? 1 : 2;
  }
  uint32_t announcer() const { return receiver->connection().rails().clear_to_send_pair().index; }
  size_t announced_on(uint32_t rail) { return posted_on(*receiver, rail, WorkKind::kClearToSend); }

  // Small messages arrive over the idle rail until clear-to-send is to move there from rail 0,
  // whose last write is held back.
  void begin_to_move() {
    verbs.forget_posted();
    for (int i = 0; i < 2 * RailSet::kReceiveBatch; ++i) {
      Request* receive = irecv(to_small);
      if (receive == nullptr) return;
      EXPECT_EQ(verbs.deliver_on(qp_number(*receiver, 0)), 1) << i;
      Request* send = isend(small);
      EXPECT_EQ(verbs.deliver_on(qp_number(*sender, idle)), 1) << i;
      EXPECT_TRUE(finish_both(send, receive)) << i;
    }
    ADD_FAILURE() << "clear-to-send does not move";
  }
  // The receiver's port of a rail is lost, and both ends have moved what was under way.
  void lose(uint32_t rail) {
    verbs.forget_posted();
    set_port('r', static_cast<int>(rail), false);
    await_losses(2);
  }
  // So many are logged, and both ends have agreed on them and taken the news.
  void await_losses(size_t count) {
    EXPECT_TRUE(poll_until([&] {
      const std::string states =
          recovery_of(*sender).state_text() + recovery_of(*receiver).state_text();
      return log.lines("is lost").size() == count && !contains(states, "have not agreed yet");
    }));
    EXPECT_TRUE(poll_until([] { return true; }));
  }
  void finish_large() {
    for (int i : {0, 1}) EXPECT_TRUE(finish_both(sends_large[i], receives_large[i])) << i;
  }
  void expect_small(Request* receive) {
    Request* send = isend_soon(small);
    EXPECT_TRUE(send != nullptr && receive != nullptr && finish_both(send, receive));
  }

  RecordedLog log;
  Buffer large = sender_buffer(120000), to_large = receiver_buffer(120000);
  Buffer small = sender_buffer(8), to_small = receiver_buffer(8);
  Request *sends_large[2], *receives_large[2];
  uint32_t idle;
};

TEST(SpreadReceivesTest, AnotherRailIsLost_NothingIsAnnouncedAgain) {
  BusyRails rails;
  Request* late = rails.irecv(rails.to_small);
  rails.lose(3 - rails.idle);
  for (uint32_t rail : {0, 1, 2}) EXPECT_EQ(rails.announced_on(rail), 0u) << rail;
  rails.verbs.release();
  rails.finish_large();
  rails.expect_small(late);
}

TEST(SpreadReceivesTest, AnnouncersAreLost_WhatIsIncompleteIsAnnouncedAgain) {
  BusyRails rails;
  Request* late = rails.irecv(rails.to_small);
  rails.lose(0);
  EXPECT_TRUE(rails.poll_until([&] { return rails.announced_on(1) == 1u; }));
  EXPECT_EQ(rails.irecv(rails.to_small), nullptr) << "until that is confirmed";
  rails.set_port('r', 1, false);
  rails.await_losses(4);
  EXPECT_TRUE(rails.poll_until([&] { return rails.announced_on(2) == 1u; }));
  rails.verbs.release();
  rails.finish_large();
  rails.expect_small(late);
}

TEST(SpreadReceivesTest, AnnouncerIsLostWhileItIsReplaced_TheNewOneAnnounces) {
  BusyRails rails;
  rails.begin_to_move();
  EXPECT_EQ(rails.announcer(), 0u);
  rails.lose(0);
  EXPECT_TRUE(rails.poll_until([&] { return rails.announced_on(rails.idle) == 1u; }));
  rails.verbs.release();
  rails.finish_large();
  rails.exchange(kSizes);
  EXPECT_EQ(rails.announcer(), rails.idle);
}

// The ends agree on nothing meanwhile: their socket is gone, and the fabric holds back what they
// write.
TEST(SpreadReceivesTest, AnnouncerIsLostWhereAllIsComplete_AnotherOneAnnouncesAtOnce) {
  RailsPair pair(2, 0, test_options(), lost_sockets());
  pair.exchange(kSizes);
  pair.verbs.hold();
  pair.set_port('r', 0, false);
  const ReceiveComm& receiver = *pair.receiver;
  ASSERT_TRUE(wait_for([&] {
    return pair.receiver->progress() &&
           receiver.connection().rails().clear_to_send_pair().index == 1;
  }));
  pair.verbs.release();
  pair.exchange(kSizes);
}

struct LostRailTest : testing::TestWithParam<char> {
  // The port of one end of rail 0 fails, and of that alone.
  void lose_rail(RailsPair& pair) { pair.set_port(GetParam(), 0, false); }
};

TEST_P(LostRailTest, SocketIsLost_TheRailIsRecoveredAllTheSame) {
  RailsPair pair(2, 0, test_options(), lost_sockets());
  lose_rail(pair);
  pair.exchange(kSizes);
}

TEST_P(LostRailTest, RailReturns_ItIsUsedAgain) {
  RecordedLog log;
  RailsPair pair(1, 1);
  pair.exchange({100});
  lose_rail(pair);
  pair.exchange(kSizes);
  EXPECT_GT(pair.recovery_of(*pair.receiver).counters(1).bytes.load(), 0u) << "it stood by";
  pair.set_port(GetParam(), 0, true);
  ASSERT_TRUE(pair.poll_until([&] {
    return pair.recovery_of(*pair.sender).counters(0).returns.load() == 1 &&
           pair.recovery_of(*pair.receiver).counters(0).returns.load() == 1 &&
           pair.receiver->connection().rails().clear_to_send_pair().index == 0;
  }));
  pair.verbs.forget_posted();
  pair.exchange(kSizes);
  EXPECT_EQ(pair.posted_on(*pair.sender, 1, WorkKind::kChunk), 0u);
  EXPECT_EQ(pair.posted_on(*pair.receiver, 1, WorkKind::kClearToSend), 0u);
  EXPECT_TRUE(pair.poll_until([&] { return log.lines("the rail is used again").size() == 2u; }))
      << "one of each end";
  EXPECT_EQ(log.warnings(" is lost: ").size(), 2u) << "one of each end";
}

// What arrived before the queue pair was stopped is polled afterwards, and replaces a batch of
// receives. rxe flushes none that is posted then, and the pair returns once all have completed.
TEST(SpreadReceivesTest, BatchIsFullAfterTheRailIsLost_NoReceivesArePostedAndTheRailReturns) {
  RailsPair pair(1, 1);
  pair.verbs.keep_late_receives();
  pair.exchange(std::vector<size_t>(RailSet::kReceiveBatch - 1, 8));
  Buffer from = pair.sender_buffer(8);
  Buffer to = pair.receiver_buffer(8);
  Request* receive = pair.irecv(to);
  Request* send = pair.isend_soon(from);
  ASSERT_NE(send, nullptr);
  const uint32_t qp = pair.receiver->connection().rails().pair(0).qp->qp_num;
  pair.set_port('r', 0, false);
  ASSERT_TRUE(wait_for([&] { return pair.verbs.posted_receives(qp) == 0; }));
  ASSERT_TRUE(pair.finish_both(send, receive));
  EXPECT_EQ(pair.verbs.posted_receives(qp), 0);
  pair.set_port('r', 0, true);
  EXPECT_TRUE(pair.returns(*pair.receiver, 0));
}

// More data has arrived than receives are posted, as the HCA takes it without the receiver's help.
// None is left that could be flushed when the rail is lost.
TEST(SpreadReceivesTest, AllReceivesAreUsedUpWhenTheRailIsLost_EverythingArrives) {
  constexpr size_t kBytes = 256 << 10;
  constexpr int kMessages = ReceiveComm::kReceives * wire::kMaxGroup;
  RailsPair pair(2);
  Buffer from = pair.sender_buffer(kBytes);
  Buffer to = pair.receiver_buffer(kBytes);
  std::vector<ReceiveBuffer> group;
  for (int tag = 0; tag < wire::kMaxGroup; ++tag) group.push_back(to.receive(kBytes, tag));
  std::vector<Request*> requests;
  ASSERT_TRUE(wait_for([&] {
    // None where the clear-to-sends before it are not confirmed yet.
    if (Request* request = pair.irecv(group); request != nullptr) requests.push_back(request);
    return requests.size() == ReceiveComm::kReceives;
  }));
  const RailSet& rails = pair.receiver->connection().rails();
  auto is_used_up = [&](int rail) {
    return pair.verbs.posted_receives(rails.pair(rail).number) == 0;
  };
  int sent = 0;
  std::vector<Request*> sends;  // under way: the sender has fewer requests than there are messages
  auto is_done = [](Request* request) { return test_once(request).done; };
  auto send = [&] {
    Request* request = sent < kMessages ? pair.isend(from, sent % wire::kMaxGroup) : nullptr;
    if (request == nullptr) return;
    sends.push_back(request);
    ++sent;
  };
  ASSERT_TRUE(wait_for([&] {
    send();
    std::erase_if(sends, is_done);
    return is_used_up(0) || is_used_up(1);
  }));
  const int lost = is_used_up(0) ? 0 : 1;
  pair.set_port('r', lost, false);
  const PairArrivals& arrivals = pair.recovery_of(*pair.receiver).arrivals(is_used_up(0) ? 0 : 1);
  ASSERT_TRUE(wait_for([&] { return arrivals.is_lost(); }));
  EXPECT_TRUE(wait_for([&] {
    send();
    std::erase_if(sends, is_done);
    std::erase_if(requests, is_done);
    return sent == kMessages && sends.empty() && requests.empty();
  })) << failure_of(*pair.sender).text
      << failure_of(*pair.receiver).text;
  EXPECT_EQ(from.bytes, to.bytes);
}

TEST(SpreadReceivesTest, ReceivesAreNotReplaced_TheRailIsLostAndReturns) {
  RailsPair pair(1, 1);
  pair.exchange(std::vector<size_t>(RailSet::kReceiveBatch - 1, 8));
  pair.verbs.fail_call(fake_verbs::Call::kPostRecv, ENOMEM, /*skip=*/5);
  pair.exchange({8});
  EXPECT_EQ(pair.verbs.failures_left(fake_verbs::Call::kPostRecv), 0);
  EXPECT_TRUE(pair.returns(*pair.receiver, 0));
}

INSTANTIATE_TEST_SUITE_P(EachEnd, LostRailTest, testing::Values('s', 'r'),
                         [](const auto& end) { return end.param == 's' ? "sender" : "receiver"; });

// The receiver has not seen yet that the rail is back, as its own probe's completion waits in the
// queue in front of the data.
struct EarlyDataTest : testing::Test {
  EarlyDataTest() {
    const std::vector<size_t> short_ones(4, 100);  // by which no speed is measured
    pair.exchange(short_ones);
    pair.set_port('s', 0, false);
    pair.exchange(short_ones);
    pair.set_port('s', 0, true);
    EXPECT_TRUE(wait_for([&] {
      (void)pair.sender->progress();
      return pair.recovery_of(*pair.sender).counters(0).returns.load() == 1;
    }));
    Buffer from = pair.sender_buffer(1 << 20);
    Request* receive = pair.irecv(to);
    pair.verbs.forget_posted();
    Request* send = pair.isend(from);
    EXPECT_GT(pair.posted_on(*pair.sender, 0, WorkKind::kChunk), 0u);
    EXPECT_TRUE(test_once(receive).done) << "by one poll";
    EXPECT_TRUE(finish(send).done);
    to.pose_as_gpu_memory();
    pair.verbs.forget_posted();
  }

  // Starts a flush of what has arrived.
  Request* iflush() {
    Request* flush = nullptr;
    EXPECT_TRUE(pair.receiver->iflush(Arrays(to.receive(1 << 20)).get(), &flush));
    return flush;
  }
  // The QP that carries the flushes of a rail which are posted.
  uint32_t flush_qp(uint32_t rail) const {
    for (const fake_verbs::Posted& work : pair.verbs.posted()) {
      const WorkId id = decode_work_id(work.wr_id);
      if (id.kind == WorkKind::kFlush && id.pair == rail) return work.qp_num;
    }
    return 0;
  }

  RailsPair pair{2};
  Buffer to = pair.receiver_buffer(1 << 20);
};

TEST_F(EarlyDataTest, IsFlushedOverTheRailThatHasJustReturned) {
  Request* flush = iflush();
  EXPECT_EQ(pair.reads(), 2u) << "one over each rail";
  EXPECT_TRUE(wait_for([&] { return test_once(flush).done; }));
}

// An HCA that dies completes none of its reads.
TEST_F(EarlyDataTest, HcaDiesDuringTheFlush_IsFlushedOverTheOtherRail) {
  pair.verbs.hold();
  Request* flush = iflush();
  const uint32_t other = flush_qp(1);
  ASSERT_NE(other, 0u);
  pair.verbs.raise_event(RailsPair::name('r', 0), IBV_EVENT_DEVICE_FATAL, nullptr);
  const Recovery& recovery = pair.recovery_of(*pair.receiver);
  ASSERT_TRUE(wait_for([&] { return contains(recovery.state_text(), "fake_r0"); }));
  EXPECT_TRUE(wait_for([&] {
    (void)pair.sender->progress();
    pair.verbs.deliver_on(other);
    return test_once(flush).done;
  })) << failure_of(*pair.receiver).text;
  pair.verbs.forget_posted();
  flush = iflush();
  EXPECT_EQ(pair.reads(), 1u);
  pair.verbs.deliver_on(other);
  EXPECT_TRUE(wait_for([&] { return test_once(flush).done; }));
  pair.verbs.release();
}

}  // namespace
}  // namespace gdr::transport

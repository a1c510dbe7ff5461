#include "transport/data/spread_sends.h"

#include <array>
#include <atomic>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/spread_rails.h"

namespace gdr::transport {
namespace {

struct SpreadSendsTest : testing::Test {
  // A clock that counts how often this thread looks at it. The watcher does, too.
  TransportOptions counts_looks() {
    TransportOptions options = test_options();
    options.connection.now = [this, data_path = std::this_thread::get_id()] {
      looks += std::this_thread::get_id() == data_path ? 1 : 0;
      return std::chrono::steady_clock::now();
    };
    return options;
  }
  TransportOptions with_manual_clock() {
    TransportOptions options = test_options();
    options.connection.now = clock.as_now();
    return options;
  }

  std::atomic<int> looks = 0;
  ManualClock clock;
};

TEST_F(SpreadSendsTest, TwoRails_LongMessageTakesBoth) {
  SpreadRails pair(2, 0);
  pair.exchange({kTwoRailBytes});
  EXPECT_EQ(pair.chunks().size(), size_t{kTwoRailChunks});
  EXPECT_EQ(pair.chunks(0).size(), size_t{kTwoRailChunks} / 2);
  for (const auto& chunk : pair.chunks()) {
    EXPECT_EQ(immediate_of(chunk).chunks, uint32_t{kTwoRailChunks});
    EXPECT_EQ(chunk.bytes, kTwoRailBytes / kTwoRailChunks);
    EXPECT_TRUE(chunk.is_signalled());
  }
}

// Only the recovery writes over a rail that stands by, and what it waits for it waits for without
// the data path's polls.
TEST_F(SpreadSendsTest, StandbyRail_ItsQueueIsReadInFewPolls) {
  SpreadRails pair(1, 1);
  pair.exchange({8});
  const auto polls_in = [&pair](auto& comm, int count) {
    std::array<size_t, 2> polls;
    const RailSet& rails = comm.connection().rails();
    for (int i = 0; i < 2; ++i) polls[i] = pair.verbs.polls(rails[i].cq());
    for (int i = 0; i < count; ++i) EXPECT_TRUE(comm.progress());
    for (int i = 0; i < 2; ++i) polls[i] = pair.verbs.polls(rails[i].cq()) - polls[i];
    return polls;
  };
  const std::array<size_t, 2> few{10 * SpreadPath::kPollsPerLookAtAll, 10};
  const std::array<size_t, 2> all{10 * SpreadPath::kPollsPerLookAtAll,
                                  10 * SpreadPath::kPollsPerLookAtAll};
  EXPECT_EQ(polls_in(*pair.sender, few[0]), few);
  EXPECT_EQ(polls_in(*pair.receiver, few[0]), few);
  pair.lose_first_rail();
  pair.exchange({8});
  EXPECT_GE(polls_in(*pair.sender, all[0])[1], all[1]);
  EXPECT_GE(polls_in(*pair.receiver, all[0])[1], all[1]);
}

// The speeds of both paths are measured, by the time of each poll.
TEST_F(SpreadSendsTest, OneRailToTwoOfThePeer_EveryPollLooksAtTheClock) {
  SpreadRails pair(1, 0, counts_looks(), local_socket_pair(), {.more_receivers = 1});
  ASSERT_EQ(pair.sender->connection().rails().pair_count(), 2u);
  pair.exchange({8, 1 << 20, 8});
  const int before = looks;
  constexpr int kPolls = 100;
  for (int i = 0; i < kPolls; ++i) EXPECT_TRUE(pair.sender->progress());
  EXPECT_GE(looks - before, kPolls);
}

// There is nothing to choose between, so that no speed has to be known.
TEST_F(SpreadSendsTest, OneActiveRail_MessagesDoNotLookAtTheClock) {
  SpreadRails pair(1, 1, counts_looks());
  for (int i = 0; i < 100; ++i) pair.exchange({8});  // the recovery has proved the standby pair
  const int before = looks;
  pair.exchange({0, 8, 1 << 20});
  EXPECT_EQ(looks, before);
  pair.lose_first_rail();
  pair.exchange({8});
  EXPECT_GT(looks, before);
}

TEST_F(SpreadSendsTest, Quiet_NewsAreTakenByTheNextPoll) {
  SpreadRails pair(1, 1);
  for (int i = 0; i < 40; ++i) pair.exchange({8});
  const auto takes_news_at_once = [&pair](auto& comm) {
    const Recovery& recovery = pair.recovery_of(comm);
    EXPECT_TRUE(wait_for([&] { return recovery.has_news(); }));
    EXPECT_TRUE(comm.progress());
    return !recovery.has_news() || contains(recovery.state_text(), "fake_");
  };
  pair.set_port('s', 0, false);
  EXPECT_TRUE(takes_news_at_once(*pair.sender));
  const size_t polls = pair.verbs.polls(pair.sender->connection().rails()[1].cq());
  EXPECT_TRUE(pair.sender->progress());
  EXPECT_GT(pair.verbs.polls(pair.sender->connection().rails()[1].cq()), polls)
      << "a connection that has lost its active pair is not quiet";
  pair.exchange({8, 1 << 20});
}

// NCCL_IB_QPS_PER_CONNECTION.
TEST_F(SpreadSendsTest, SeveralQpsOnARail_TakeTurns) {
  SpreadRails pair(2, 0, options_of_qps(2, /*split=*/false));
  pair.exchange({kTwoRailBytes});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.chunks(i).size(), size_t{kTwoRailChunks} / 4) << i;
}

TEST_F(SpreadSendsTest, SplitOverQps_ShortMessageTakesAll) {
  SpreadRails pair(2, 0, options_of_qps(2, /*split=*/true));
  pair.exchange({1000});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.chunks(i).size(), 1u) << i;
}

// Rail 1 is late by as much as an HCA's timeout, for every fourth message at first, and then
// whenever it is tried.
TEST_F(SpreadSendsTest, ChunksOfARailAreLateAgainAndAgain_OneWarningNamesIt) {
  SpreadRails pair(2, 0, with_manual_clock());
  RecordedLog log;
  for (int i = 0; i < 100; ++i) {
    SpreadMessage message(pair, size_t{1} << 20);
    message.send_held();
    ASSERT_NE(message.send, nullptr);
    clock.now += std::chrono::milliseconds(10);
    EXPECT_TRUE(pair.sender->progress());  // a poll that finds nothing: it took that long
    (void)pair.verbs.deliver_on(qp_number(*pair.sender, 0), kTwoRailChunks);
    EXPECT_TRUE(pair.sender->progress());
    const bool at_first = i < 20;
    if (!at_first || i % 4 == 3) clock.now += std::chrono::milliseconds(at_first ? 40 : 200);
    EXPECT_TRUE(pair.sender->progress());
    ASSERT_TRUE(message.arrives());
    if (!at_first) clock.now += std::chrono::seconds(2);
  }
  const std::vector<std::string> warnings = log.warnings("is avoided");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(contains(warnings[0], "fake_s1:1 <-> ")) << warnings[0];
}

// One active rail, one standing by: nothing is avoided.
TEST_F(SpreadSendsTest, OnlyActiveRailIsLate_NoWarning) {
  SpreadRails pair(1, 1, with_manual_clock());
  RecordedLog log;
  for (int i = 0; i < 100; ++i) {
    SpreadMessage message(pair, size_t{1} << 20);
    message.send_held();
    ASSERT_NE(message.send, nullptr);
    clock.now += std::chrono::microseconds(100);
    EXPECT_TRUE(pair.sender->progress());
    if (i > 20 && i % 2 == 0) clock.now += std::chrono::milliseconds(70);
    EXPECT_TRUE(pair.sender->progress());
    ASSERT_TRUE(message.arrives());
  }
  EXPECT_EQ(log.warnings("again and again").size(), 0u);
}

// A chunk for each pair would take more entries than the send queue of the last pair has.
TEST_F(SpreadSendsTest, SplitOverAsManyQpsAsThereMayBe_Arrives) {
  TransportOptions options = adaptive_options();
  options.connection.qps_per_connection = 64;
  options.connection.split_data_on_qps = true;
  SpreadRails pair(2, 0, options);
  pair.exchange({size_t{1} << 20});
  EXPECT_LE(pair.chunks().size(), 124u);
}

// With separate ends, each chunk takes two entries of the send queue.
TEST_F(SpreadSendsTest, NoRoomLeftInTheSendQueue_NullRequest) {
  for (const bool separate_ends : {false, true}) {
    TransportOptions options = test_options();
    options.connection.adaptive_routing = separate_ends;
    SpreadRails pair(2, 0, options);
    Buffer from = pair.sender_buffer(kTwoRailBytes);
    Buffer to = pair.receiver_buffer(kTwoRailBytes);
    std::vector<Request*> sends;
    for (int i = 0; i < 32; ++i) {
      pair.irecv({to.receive(kTwoRailBytes), to.receive(kTwoRailBytes)});
    }
    pair.verbs.hold();
    while (Request* send = pair.isend(from)) sends.push_back(send);
    const size_t entries = 2 * SendComm::kRequests - 1 - Recovery::kReservedSends;
    EXPECT_EQ(sends.size(), 2 * entries / (separate_ends ? 2 : 1) / kTwoRailChunks);
    pair.verbs.release();
    for (Request* send : sends) EXPECT_TRUE(finish(send).done);
    EXPECT_NE(pair.isend(from), nullptr);
  }
}

// One that had room on all pairs only would wait for ever once a pair is lost.
TEST_F(SpreadSendsTest, MoreWritesThanOnePairsQueueHolds_FailsAndNamesTheLimit) {
  SpreadRails pair(2, 0, test_options(), local_socket_pair(), {.max_msg_sz = kPortsMost});
  pair.exchange({wire::kMaxQps * kPortsMost});
  constexpr size_t kTooMany = wire::kMaxQps * kPortsMost + 1;
  Buffer from = pair.sender_buffer(kTooMany);
  Buffer to = pair.receiver_buffer(kTooMany);
  pair.irecv(to);
  EXPECT_TRUE(pair.isend_fails(from));
  const std::string text = failure_of(*pair.sender).text;
  EXPECT_TRUE(contains_all(text, {"too many writes of 4096 bytes", "the limit is 128 writes",
                                  "Fix: set NCCL_BUFFSIZE lower"}));
}

}  // namespace
}  // namespace gdr::transport

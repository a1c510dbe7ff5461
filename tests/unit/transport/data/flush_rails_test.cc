#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/transport/rails_pair.h"
#include "transport/data/flush.h"

namespace gdr::transport {
namespace {

// Flushes of their own over the rails of a receiver, whose data path is not called.
struct FlushRailsTest : testing::Test {
  explicit FlushRailsTest(bool roce = false)
      : pair(2, 0, options(), local_socket_pair(), RailHcas{.roce = roce}) {
    for (uint32_t rail : {0u, 1u}) {
      EXPECT_TRUE(flushes.add_rail(rail, /*stands_by=*/false));
      flushes.note_data(rail);
    }
    pair.verbs.forget_posted();
  }

  bool post() { return flushes.post(buffer.data(), *buffer.memory, &request); }
  // Takes the completions of reads as a data path does.
  void poll() {
    for (const RailEnd& rail : connection.rails()) {
      ibv_wc wc;
      while (ibv_poll_cq(rail.cq(), 1, &wc) > 0) {
        const WorkId id = decode_work_id(wc.wr_id);
        if (id.kind == WorkKind::kFlush) flushes.on_read(id, wc);
      }
    }
  }

  bool completes() {
    poll();
    return request->pending == 0;
  }

  static TransportOptions options() {
    TransportOptions some = test_options();
    some.connection.ack_timeout = 1;
    return some;
  }

  RailsPair pair;
  Connection& connection = pair.receiver->connection();
  Buffer buffer = pair.receiver_buffer(64);
  Flushes flushes{*pair.receiver};
  Request* request = nullptr;
};

struct FlushRailsOnRoceTest : FlushRailsTest {
  FlushRailsOnRoceTest() : FlushRailsTest(/*roce=*/true) {}

  std::vector<fake_verbs::Gid>& gids_of_rail_1() { return pair.verbs.port("fake_r1", 1).gids; }
};

TEST_F(FlushRailsTest, BothRailsHaveCarriedData_ReadsOverBoth) {
  pair.verbs.hold();
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 2u);
  pair.verbs.deliver();
  poll();
  EXPECT_EQ(request->pending, 1);
  pair.verbs.release();
  EXPECT_TRUE(completes());
}

// As that of a standby rail, over which mostly nothing comes.
TEST_F(FlushRailsTest, FlushWithoutAQueuePair_IsMadeForTheFirstRead) {
  Flushes later(*pair.receiver);
  for (uint32_t rail : {0u, 1u}) ASSERT_TRUE(later.add_rail(rail, /*stands_by=*/true));
  const int before = pair.verbs.live().qps;
  later.note_data(1);
  ASSERT_TRUE(later.post(buffer.data(), *buffer.memory, &request));
  EXPECT_EQ(pair.reads(), 1u);
  EXPECT_EQ(pair.verbs.live().qps, before + 1);
  ASSERT_TRUE(later.post(buffer.data(), *buffer.memory, &request));
  EXPECT_EQ(pair.verbs.live().qps, before + 1);
}

TEST_F(FlushRailsTest, LostRail_IsNotReadOverUntilItReturns) {
  flushes.stop_rail(1);
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 1u);
  EXPECT_TRUE(completes());
  flushes.start_rail(1);
  flushes.note_data(0);
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 3u);
}

// As after a failover whose active rail has returned.
TEST_F(FlushRailsTest, RailOfWhichAllDataIsRead_IsNotReadOverUntilDataComesAgain) {
  ASSERT_TRUE(post());
  ASSERT_TRUE(completes());
  flushes.note_data(0);
  pair.verbs.forget_posted();
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 1u);
  poll();
  flushes.note_data(0);
  flushes.note_data(1);
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 3u);
}

// The read that is under way need not order what came after it was posted.
TEST_F(FlushRailsTest, DataComesDuringARead_TheRailIsReadOverAgain) {
  pair.verbs.hold();
  ASSERT_TRUE(post());
  flushes.note_data(1);
  pair.verbs.release();
  ASSERT_TRUE(completes());
  flushes.note_data(0);
  pair.verbs.forget_posted();
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 2u);
}

// A second flush must not be complete before the first one has ordered the data of both.
TEST_F(FlushRailsTest, ReadIsUnderWay_TheNextFlushReadsOverTheRailAsWell) {
  pair.verbs.hold();
  ASSERT_TRUE(post());
  const Request* first = request;
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 4u);
  pair.verbs.release();
  poll();
  EXPECT_EQ(first->pending + request->pending, 0);
}

// The rail was given up before the memory was registered, but its pairs are not agreed on yet.
TEST_F(FlushRailsTest, MemoryHasNoKeyOnARail_IsReadOverTheOtherOnly) {
  buffer.memory->keys.set(1, {});
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 1u);
  EXPECT_TRUE(completes());
  flushes.stop_rail(0);
  ASSERT_TRUE(post());
  flushes.start_rail(1);
  EXPECT_EQ(pair.reads(), 1u) << "it waits";
  flushes.start_rail(0);
  EXPECT_TRUE(completes());
  EXPECT_FALSE(connection.failed());
}

// The connection goes on as long as one of the rails is being tried again.
TEST_F(FlushRailsTest, NoRailIsLeft_ReadWaitsForOneThatReturns) {
  pair.verbs.hold();
  ASSERT_TRUE(post());
  flushes.stop_rail(0);
  flushes.stop_rail(1);
  pair.verbs.release();
  poll();
  EXPECT_EQ(request->pending, 1) << "the reads of lost rails do not count";
  flushes.start_rail(1);
  EXPECT_TRUE(completes());
}

TEST_F(FlushRailsTest, PostedWhileNoRailIsLeft_ReadWaitsForOneThatReturns) {
  flushes.stop_rail(0);
  flushes.stop_rail(1);
  ASSERT_TRUE(post()) << "the connection has not failed";
  EXPECT_EQ(pair.reads(), 0u);
  EXPECT_EQ(request->pending, 1);
  flushes.start_rail(0);
  EXPECT_EQ(pair.reads(), 1u);
  EXPECT_TRUE(completes());
  flushes.start_rail(1);
  EXPECT_EQ(pair.reads(), 1u) << "it is complete";
}

TEST_F(FlushRailsTest, RailThatReturnsTakesNoRead_AnotherOneIsWaitedFor) {
  flushes.stop_rail(0);
  flushes.stop_rail(1);
  ASSERT_TRUE(post());
  pair.verbs.fail_call(fake_verbs::Call::kModifyToInit, EIO, /*skip=*/0, /*times=*/2);
  flushes.start_rail(0);
  EXPECT_EQ(pair.reads(), 0u);
  flushes.start_rail(1);
  EXPECT_TRUE(completes());
}

// As where the HCA does not reach the memory any more. The rails work and return each time.
TEST_F(FlushRailsTest, ReadFailsOverEveryRail_ConnectionFailsAfterSomeTries) {
  pair.verbs.fail_each(IBV_WC_GENERAL_ERR, [](const fake_verbs::Transfer& transfer) {
    return transfer.wr.opcode == IBV_WR_RDMA_READ;
  });
  ASSERT_TRUE(post());
  for (int i = 0; i < 20 && !connection.failed(); ++i) {
    poll();
    for (uint32_t rail : {0u, 1u}) flushes.start_rail(rail);
  }
  ASSERT_TRUE(connection.failed());
  EXPECT_EQ(pair.reads(), 6u);
  const std::string text = failure_of(*pair.receiver).text;
  EXPECT_TRUE(contains(text, "GENERAL_ERR")) << text;
}

// The second read of each flush is that over rail 1.
TEST_F(FlushRailsTest, ReadIsRefused_ConnectionFailsUnlessTheRailWasStoppedOrGivenUp) {
  const auto is_second = [reads = 0](const fake_verbs::Transfer& transfer) mutable {
    return transfer.wr.opcode == IBV_WR_RDMA_READ && ++reads % 2 == 0;
  };
  pair.verbs.fail_each(IBV_WC_REM_ACCESS_ERR, is_second);
  ASSERT_TRUE(post());
  flushes.stop_rail(1);
  EXPECT_TRUE(completes());
  flushes.start_rail(1);
  for (uint32_t rail : {0u, 1u}) flushes.note_data(rail);
  ASSERT_TRUE(connection.recovery()->withdraw_rail(1, ENOMEM));  // and its keys may be gone
  ASSERT_TRUE(post());
  poll();
  EXPECT_TRUE(completes()) << "over rail 0";
  EXPECT_FALSE(connection.failed());
  ASSERT_TRUE(post());
  poll();
  EXPECT_TRUE(connection.failed());
}

TEST_F(FlushRailsTest, QueuePairsCannotBeConnectedAgain_ConnectionFailsAfterSomeTries) {
  for (uint32_t rail : {0u, 1u}) flushes.stop_rail(rail);
  ASSERT_TRUE(post());
  pair.verbs.fail_call(fake_verbs::Call::kModifyToRtr, EINVAL, /*skip=*/0, /*times=*/100000);
  for (int i = 0; i < 1000 && !connection.failed(); ++i) {
    for (uint32_t rail : {0u, 1u}) flushes.start_rail(rail);
  }
  ASSERT_TRUE(connection.failed());
  EXPECT_EQ(pair.reads(), 0u);
}

TEST_F(FlushRailsTest, RailThatReturnsIsConnectedAtTheSecondAttempt_IsNotLost) {
  flushes.stop_rail(1);
  flushes.start_rail(1);
  pair.verbs.fail_call(fake_verbs::Call::kModifyToRtr, EINVAL);
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 2u);
  EXPECT_EQ(connection.recovery()->state_text(), "");
}

TEST_F(FlushRailsTest, HandshakeCouldNotConnectTheQueuePair_IsConnectedWhenItIsReadOver) {
  Flushes others(*pair.receiver);
  pair.verbs.fail_call(fake_verbs::Call::kModifyToRtr, EINVAL);
  ASSERT_TRUE(others.add_rail(1, /*stands_by=*/false));
  others.note_data(1);
  ASSERT_TRUE(others.post(buffer.data(), *buffer.memory, &request));
  const std::vector<fake_verbs::Posted> reads = pair.verbs.posted();
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_EQ(decode_work_id(reads[0].wr_id).pair, 1u);
  EXPECT_EQ(connection.recovery()->state_text(), "") << "the rail is not lost for it";
}

// Data comes over it, as its pairs have found the GID's index anew.
TEST_F(FlushRailsOnRoceTest, GidHasMovedBeforeTheRailReturns_IsReadOverByItsPresentIndex) {
  flushes.stop_rail(1);
  gids_of_rail_1().insert(gids_of_rail_1().begin(), fake_verbs::Gid{});
  flushes.start_rail(1);
  ASSERT_TRUE(post());
  const std::vector<fake_verbs::Posted> reads = pair.verbs.posted();
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(pair.verbs.attributes(reads[0].qp_num).ah_attr.grh.sgid_index, 0);
  EXPECT_EQ(pair.verbs.attributes(reads[1].qp_num).ah_attr.grh.sgid_index, 1);
}

TEST_F(FlushRailsOnRoceTest, PortHasTheGidNoMore_RailIsLostAndTheOtherOneIsReadOver) {
  flushes.stop_rail(1);
  gids_of_rail_1().clear();
  flushes.start_rail(1);
  ASSERT_TRUE(post());
  EXPECT_EQ(pair.reads(), 1u);
  EXPECT_TRUE(completes());
  EXPECT_TRUE(contains(connection.recovery()->state_text(), "fake_r1:1"));
}

}  // namespace
}  // namespace gdr::transport

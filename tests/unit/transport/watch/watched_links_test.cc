#include "transport/watch/watched_links.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

// Of both ends of a CommPair, which share a process.
struct ProcessSumsTest : testing::Test {
  static RailSums::Moved moved(Fabric& fabric, const char* hca,
                               RailSums::Moved RailSums::*direction) {
    const ProcessSums sums = fabric.watcher->sums();
    const auto rail = sums.rails.find({hca, 1});
    return rail == sums.rails.end() ? RailSums::Moved{} : rail->second.*direction;
  }
  static void transfer(Ends& pair, size_t bytes) {
    Buffer from = pair.sender_buffer(bytes + 1), to = pair.receiver_buffer(1001);
    Request* receive = pair.irecv(to);
    Request* send = pair.isend(from.data(), bytes, from);
    ASSERT_TRUE(finish(receive).done);
    ASSERT_TRUE(finish(send).done);
  }
  static void expect(RailSums::Moved is, uint64_t bytes, uint64_t messages) {
    EXPECT_EQ(is.bytes, bytes);
    EXPECT_EQ(is.messages, messages);
  }
};

TEST_F(ProcessSumsTest, OneRail_BothEndsCountBytesAndMessagesAlsoOnceTheyAreClosed) {
  CommPair pair;
  expect(moved(pair, "fake_a", &RailSums::sent), 0, 0);
  for (size_t bytes : {1000, 0, 7}) transfer(pair, bytes);
  expect(moved(pair, "fake_a", &RailSums::sent), 1007, 3);
  expect(moved(pair, "fake_b", &RailSums::received), 1007, 3);
  expect(moved(pair, "fake_a", &RailSums::received), 0, 0);
  EXPECT_EQ(pair.watcher->connections(), 2u);
  pair.sender.reset();
  pair.receiver.reset();
  EXPECT_EQ(pair.watcher->connections(), 0u);
  expect(moved(pair, "fake_a", &RailSums::sent), 1007, 3);
  expect(moved(pair, "fake_b", &RailSums::received), 1007, 3);
  EXPECT_EQ(pair.watcher->sums().failed, 0u);
}

// With adaptive routing the size of a message comes in a table, and chunks of 1001 bytes in three
// parts are not of one size.
TEST_F(ProcessSumsTest, MessagesAreSplit_EachChunkIsAMessageAndTheBytesAreExact) {
  for (bool adaptive_routing : {false, true}) {
    TransportOptions options = options_of_qps(3, /*split=*/true);
    options.connection.adaptive_routing = adaptive_routing;
    options.connection.adaptive_routing_threshold = 0;
    CommPair pair(options);
    for (int i = 0; i < 2; ++i) transfer(pair, 1001);
    expect(moved(pair, "fake_a", &RailSums::sent), 2002, 6);
    expect(moved(pair, "fake_b", &RailSums::received), 2002, 6);
  }
}

TEST_F(ProcessSumsTest, SpreadOverRails_SumsOfBothEndsAreExact) {
  TransportOptions options = adaptive_options();
  options.connection.split_data_on_qps = true;
  RailsPair rails(2, 0, options);
  rails.exchange({100001, 7, 100001});
  RailSums::Moved sent, received;
  for (const char* number : {"0", "1"}) {
    const auto here = moved(rails, (std::string("fake_s") + number).c_str(), &RailSums::sent);
    const auto there = moved(rails, (std::string("fake_r") + number).c_str(), &RailSums::received);
    sent = {sent.bytes + here.bytes, sent.messages + here.messages};
    received = {received.bytes + there.bytes, received.messages + there.messages};
  }
  EXPECT_EQ(sent.bytes, 200009u);
  EXPECT_EQ(received.bytes, 200009u);
  EXPECT_EQ(sent.messages, received.messages);
}

TEST_F(ProcessSumsTest, GroupedReceiveAndFlush_EachBufferIsAMessageAndAFlushIsNone) {
  CommPair pair;
  Buffer from = pair.sender_buffer(10), to = pair.receiver_buffer(40);
  Request* receive = pair.irecv({{to.data(), 10, 1, to.memory.get()},
                                 {to.data() + 10, 10, 2, to.memory.get()},
                                 {to.data() + 20, 10, 3, to.memory.get()}});
  for (int tag : {3, 1, 2}) EXPECT_TRUE(finish(pair.isend(from, tag)).done);
  EXPECT_TRUE(finish(receive).done);
  Buffer gpu = pair.receiver_buffer(10);
  gpu.pose_as_gpu_memory();
  Request* flush = nullptr;
  ASSERT_TRUE(pair.receiver->iflush(Arrays(gpu.receive(10)).get(), &flush));
  ASSERT_NE(flush, nullptr);
  EXPECT_TRUE(finish(flush).done);
  expect(moved(pair, "fake_b", &RailSums::received), 30, 3);
}

TEST_F(ProcessSumsTest, SeveralRailsWithoutRecovery_EachRailIsCounted) {
  RailsPair pair(2, 0, without_failover());
  for (int i = 0; i < 2; ++i) transfer(pair, 100);
  expect(moved(pair, "fake_r0", &RailSums::received), 100, 1);
  expect(moved(pair, "fake_r1", &RailSums::received), 100, 1);
}

TEST_F(ProcessSumsTest, ConnectionFails_CountsAlsoOnceItIsClosed) {
  CommPair pair;
  pair.sender->connection().fail(Code::kInternal, "a test");
  EXPECT_GE(pair.watcher->sums().failed, 1u);
  pair.sender.reset();
  EXPECT_GE(pair.watcher->sums().failed, 1u);
}

}  // namespace
}  // namespace gdr::transport

// Connections that are closed while a rail of theirs is lost: the other end does not wait for a
// recovery to which nobody answers, and nothing is left.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

constexpr size_t kClosingBytes = 1 << 20;

// Of this process.
auto open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

struct ClosingTest : testing::Test {
  // A message is under way, of which some chunks have arrived, and the receiver loses a rail. No
  // end has been called since.
  void SetUp() override {
    receive = pair.irecv(to);
    pair.verbs.hold();
    send = pair.isend(from);
    ASSERT_NE(send, nullptr);
    pair.verbs.deliver(1);
    pair.set_port('r', 0, false);
    pair.verbs.release();
  }
  void expect_nothing_left() {
    EXPECT_EQ(pair.verbs.live().qps, 0);
    EXPECT_EQ(pair.verbs.live().cqs, 0);
    EXPECT_TRUE(wait_for([this] { return open_files() == files - 2; })) << "of the two sockets";
  }

  RailsPair pair{2};
  Buffer from = pair.sender_buffer(kClosingBytes);
  Buffer to = pair.receiver_buffer(kClosingBytes);
  const std::ptrdiff_t files = open_files();
  Request* receive = nullptr;
  Request* send = nullptr;
};

TEST_F(ClosingTest, SenderClosesFirst_ReceiverFailsAndBothLeaveNothing) {
  pair.sender.reset();
  EXPECT_TRUE(wait_for([&] { return !test_once(receive).alive; }));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "the peer closed the connection"));
  pair.receiver.reset();
  expect_nothing_left();
}

TEST_F(ClosingTest, ReceiverClosesFirst_SenderFailsAndBothLeaveNothing) {
  pair.receiver.reset();
  EXPECT_TRUE(wait_for([&] { return !test_once(send).alive; }));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "the peer closed the connection"));
  pair.sender.reset();
  expect_nothing_left();
}

TEST_F(ClosingTest, BothCloseAtOnce_NothingIsLeft) {
  std::thread other([this] { pair.sender.reset(); });
  pair.receiver.reset();
  other.join();
  expect_nothing_left();
}

// As where the thread of this end did not run meanwhile.
TEST(ClosedSender, WhatHasArrived_IsTakenLongAfterAndNothingElseIsAwaited) {
  RailsPair pair(2);
  Buffer from = pair.sender_buffer(8), to = pair.receiver_buffer(8);
  Request* receive = pair.irecv(to);
  Request* send = pair.isend(from);
  ASSERT_TRUE(send != nullptr && finish(send).done);
  pair.sender.reset();
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().link().peer_left(); }));
  EXPECT_TRUE(finish(receive).done);
  EXPECT_FALSE(pair.receiver->connection().failed());
  Request* next = pair.irecv(to);
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(wait_for([&] { return !test_once(next).alive; }));
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "the peer closed the connection"));
}

}  // namespace
}  // namespace gdr::transport

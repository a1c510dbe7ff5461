#include "transport/data/staged_receives.h"

#include <endian.h>

#include "tests/unit/transport/staged_transfer.h"

namespace gdr::transport {
namespace {

using StagedReceivesTest = StagedTransfer;

TEST_F(StagedReceivesTest, TargetNotCopiedYet_ReceiveStaysOpen) {
  Buffer host_source = pair.sender_buffer(1000, 'x');
  Request* receive = irecv(1000);
  hold_copies(true);
  Request* send = pair.isend(host_source);
  EXPECT_TRUE(completes(send));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(test_once(receive).done);
  hold_copies(false);
  EXPECT_TRUE(completes(receive));
  EXPECT_EQ(std::string(target.view(), 1000), std::string(1000, 'x'));
}

// All of it has arrived; NCCL needs nothing else of the peer.
TEST_F(StagedReceivesTest, PeerClosesWhileTargetIsCopied_ReceiveCompletes) {
  Buffer host_source = pair.sender_buffer(1000, 'x');
  Request* receive = irecv(1000);
  Request* never_sent = pair.irecv({{target.get() + 1000, 1000, 0, to.get()}});
  hold_copies(true);
  ASSERT_NE(pair.isend(host_source), nullptr);
  EXPECT_FALSE(test_once(receive).done);
  pair.sender.reset();
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_TRUE(test_once(receive).alive);
  hold_copies(false);
  bool done = false;
  EXPECT_TRUE(wait_for([&] {
    const Outcome outcome = test_once(receive);
    done = outcome.done;
    return done || !outcome.alive;
  }));
  EXPECT_TRUE(done);
  EXPECT_EQ(std::string(target.view(), 1000), std::string(1000, 'x'));
  EXPECT_FALSE(test_once(never_sent).alive);
}

TEST_F(StagedReceivesTest, TargetNotCopiedYet_WatchdogNamesTheCopy) {
  Buffer host_source = pair.sender_buffer(1000);
  Request* receive = irecv(1000);
  hold_copies(true);
  ASSERT_NE(pair.isend(host_source), nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(test_once(receive).done);
  EXPECT_TRUE(contains(state_of(*pair.receiver), "launched but not complete"))
      << state_of(*pair.receiver);
  hold_copies(false);
  ASSERT_TRUE(completes(receive));
  EXPECT_FALSE(contains(state_of(*pair.receiver), "launched")) << state_of(*pair.receiver);
}

// All other slots are used once meanwhile, so that the next receive would have the same slot.
TEST_F(StagedReceivesTest, RingComesRoundWhileTargetIsCopied_SlotIsNotUsedAgain) {
  Buffer host_source = pair.sender_buffer(1000, 'x');
  Request* staged = irecv(1000);
  hold_copies(true);
  ASSERT_NE(pair.isend(host_source), nullptr);
  pair.exchange(wire::kSlots - 1);
  Buffer next = pair.receiver_buffer(1);
  EXPECT_EQ(pair.irecv(next), nullptr);
  hold_copies(false);
  ASSERT_TRUE(completes(staged));
  EXPECT_EQ(std::string(target.view(), 1000), std::string(1000, 'x'));
  EXPECT_NE(pair.irecv(next), nullptr);
}

// The sizes come from the peer, and what is new is their difference.
TEST_F(StagedReceivesTest, MessageBecomesShorter_IsAProtocolFailure) {
  Request* receive = irecv(1000);
  const wire::Immediate chunk{0, 3, 0, true};
  auto arrive_with_size = [&](uint64_t size) {
    tables_of(*pair.receiver).sizes[0] = size;
    pair.verbs.inject_arrival(qp_number(*pair.receiver), htobe32(wire::encode(chunk)), 8);
    return test_once(receive);
  };
  EXPECT_TRUE(arrive_with_size(100).alive);
  EXPECT_TRUE(arrive_with_size(100).alive);
  const Outcome outcome = arrive_with_size(99);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kInternal);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "became shorter"))
      << failure_of(*pair.receiver).text;
}

}  // namespace
}  // namespace gdr::transport

#include "transport/data/send_comm.h"

#include <numeric>

#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

TEST(SendComm, ClearToSendStillOnItsPath_ReturnsNoRequest) {
  BufferedPair pair(16);
  pair.verbs.hold();
  ASSERT_NE(pair.irecv(pair.to), nullptr);
  EXPECT_EQ(pair.isend(pair.from), nullptr);
  EXPECT_EQ(pair.verbs.deliver(), 1);
  EXPECT_NE(pair.isend(pair.from), nullptr);
}

TEST(SendComm, MoreMessagesThanTheRingHolds_AllArriveInOrder) {
  BufferedPair pair;
  for (int i = 0; i < 3 * wire::kSlots + 5; ++i) {
    pair.from.data()[0] = static_cast<char>(i % 127);
    Request* receive = pair.irecv(pair.to);
    Request* send = pair.isend(pair.from);
    ASSERT_TRUE(receive != nullptr && send != nullptr) << i;
    ASSERT_TRUE(finish(receive).done && finish(send).done) << i;
    ASSERT_EQ(pair.to.data()[0], i % 127) << i;
  }
  // The generation counts the rounds of the ring.
  const auto posted = pair.posted_by(*pair.sender);
  EXPECT_EQ(immediate_of(posted.front()).stamp, 0u);
  EXPECT_EQ(immediate_of(posted.back()).stamp, 3u);
  EXPECT_EQ(immediate_of(posted.back()).slot, 4u);
}

// The clear-to-send of the previous round is still in the slot.
TEST(SendComm, RingComesRound_OldClearToSendIsNotUsedAgain) {
  BufferedPair pair;
  pair.exchange(wire::kSlots);
  EXPECT_EQ(pair.isend(pair.from), nullptr);
}

TEST(SendComm, GroupAcrossTheEndOfTheRing_EveryBufferIsFilled) {
  BufferedPair pair(8);
  pair.exchange(wire::kSlots - 3);
  pair.verbs.forget_posted();
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 8; ++i) group.push_back({pair.to.data() + i, 1, i, pair.to.memory.get()});
  Request* receive = pair.irecv(group);
  const auto writes = pair.posted_by(*pair.receiver);
  ASSERT_EQ(writes.size(), 2u) << "the ring is written in two parts";
  EXPECT_EQ(writes[0].bytes, 3 * sizeof(wire::ClearToSend));
  EXPECT_EQ(writes[1].bytes, 5 * sizeof(wire::ClearToSend));
  EXPECT_EQ(writes[1].remote_address, end_of(*pair.sender).tables_address);
  std::iota(pair.from.data(), pair.from.data() + 8, 'a');
  for (int i = 7; i >= 0; --i) {
    ASSERT_FALSE(test_once(receive).done);
    ASSERT_NE(pair.isend(pair.from.data() + i, 1, pair.from, i), nullptr);
  }
  ASSERT_TRUE(finish(receive).done);
  EXPECT_EQ(std::string(pair.to.data(), 8), "abcdefgh");
}

TEST(SendComm, EightTagsServedOutOfOrder_EachReachesItsBuffer) {
  BufferedPair pair(16);
  Buffer to = pair.receiver_buffer(8 * 16, '.');
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 8; ++i) group.push_back({to.data() + 16 * i, 16, 100 + i, to.memory.get()});
  Request* receive = pair.irecv(group);
  for (int i : {3, 7, 0, 5, 1, 6, 2, 4}) {
    std::memset(pair.from.data(), 'a' + i, 16);
    Request* send = pair.isend(pair.from.data(), static_cast<size_t>(i) + 1, pair.from, 100 + i);
    ASSERT_NE(send, nullptr);
    ASSERT_TRUE(finish(send).done);
  }
  Outcome received = finish(receive);
  ASSERT_TRUE(received.done);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(received.sizes[i], i + 1);
    EXPECT_EQ(std::string(to.data() + 16 * i, i + 2), std::string(i + 1, 'a' + i) + ".");
  }
}

TEST(SendComm, SameTagTwiceInAGroup_IsServedInOrderOfTheBuffers) {
  BufferedPair pair(3);
  Buffer to = pair.receiver_buffer(3, '.');
  std::memcpy(pair.from.data(), "123", 3);
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 3; ++i) group.push_back({to.data() + i, 1, 5, to.memory.get()});
  Request* receive = pair.irecv(group);
  for (int i = 0; i < 3; ++i) ASSERT_NE(pair.isend(pair.from.data() + i, 1, pair.from, 5), nullptr);
  ASSERT_TRUE(finish(receive).done);
  EXPECT_EQ(std::string(to.data(), 3), "123");
  EXPECT_EQ(pair.isend(pair.from, 5), nullptr) << "the group is served";
}

TEST(SendComm, TagOfALaterGroup_WaitsUntilTheGroupBeforeIsServed) {
  BufferedPair pair;
  Buffer to = pair.receiver_buffer(3);
  ASSERT_NE(
      pair.irecv({{to.data(), 1, 1, to.memory.get()}, {to.data() + 1, 1, 2, to.memory.get()}}),
      nullptr);
  ASSERT_NE(pair.irecv({{to.data() + 2, 1, 3, to.memory.get()}}), nullptr);
  for (int waiting : {3, 4}) EXPECT_EQ(pair.isend(pair.from, waiting), nullptr);
  EXPECT_FALSE(pair.sender->connection().failed()) << "of the tag that no receive has";
  EXPECT_NE(pair.isend(pair.from, 2), nullptr);
  EXPECT_EQ(pair.isend(pair.from, 3), nullptr);
  EXPECT_NE(pair.isend(pair.from, 1), nullptr);
  EXPECT_NE(pair.isend(pair.from, 3), nullptr);
}

TEST(SendComm, LargerThanTheReceive_FailsBothEndsAndNamesBothSizes) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1001);
  Buffer to = pair.receiver_buffer(999);
  Request* receive = pair.irecv(to, 42);
  Request* send = nullptr;
  EXPECT_FALSE(pair.sender->isend(from.data(), 1001, 42, *from.memory, &send));
  EXPECT_EQ(send, nullptr);
  Error failure = failure_of(*pair.sender);
  EXPECT_EQ(failure.code, Code::kInvalidUsage);
  EXPECT_TRUE(contains_all(failure.text, {"1001 bytes", "999 bytes", "tag 42"}));
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  // The reason travels over the socket, which the watcher thread reads.
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_FALSE(test_once(receive).alive);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "1001 bytes"));
}

TEST(SendComm, ClearToSendHasAnImpossibleGroupOrBitsOfAnotherVersion_Fails) {
  const struct {
    void (*change)(wire::ClearToSend&);
    const char* text;
  } cases[] = {{[](auto& slot) { slot.group_and_flags = 0; }, "impossible size"},
               {[](auto& slot) { slot.group_and_flags = 9; }, "impossible size"},
               {[](auto& slot) { slot.group_and_flags = 0xff; }, "impossible size"},
               {[](auto& slot) { slot.group_and_flags |= 1 << 10; }, "another version"},
               {[](auto& slot) { slot.group_and_flags |= 1u << 31; }, "another version"}};
  for (const auto& [change, text] : cases) {
    BufferedPair pair;
    wire::ClearToSend& slot = tables_of(*pair.sender).ring[0];
    slot.bytes = slot.group_and_flags = 1;
    change(slot);
    slot.sequence = end_of(*pair.sender).sequence_base;
    EXPECT_TRUE(pair.isend_fails(pair.from));
    EXPECT_EQ(failure_of(*pair.sender).code, Code::kInternal);
    EXPECT_TRUE(contains(failure_of(*pair.sender).text, text)) << failure_of(*pair.sender).text;
  }
}

TEST(SendComm, WorkCompletionFails_NamesBothEndsStatusAndHint) {
  const struct {
    ibv_wc_status status;
    const char* name;
    const char* hint;
  } cases[] = {{IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR", "NCCL_IB_TIMEOUT"},
               {IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR", "ACS"},
               {IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR", "freed"},
               {IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR", ""},
               {IBV_WC_GENERAL_ERR, "GENERAL_ERR", "dmesg"}};
  for (const auto& [status, name, hint] : cases) {
    BufferedPair pair;
    pair.irecv(pair.to);
    pair.verbs.fail_transfer(status);
    const Outcome outcome = test_once(pair.isend(pair.from));
    EXPECT_FALSE(outcome.alive);
    EXPECT_EQ(outcome.error, Code::kRemote);
    char qps[2][32];
    std::snprintf(qps[0], sizeof(qps[0]), "qp 0x%x <->", qp_number(*pair.sender));
    std::snprintf(qps[1], sizeof(qps[1]), "qp 0x%x: ", qp_number(*pair.receiver));
    EXPECT_TRUE(contains_all(failure_of(*pair.sender).text,
                             {"fake_a:1 lid 1", "fake_b:1 lid 2", qps[0], qps[1], name, hint}));
  }
}

TEST(SendComm, PostingFails_NamesTheErrno) {
  BufferedPair pair;
  pair.irecv(pair.to);
  pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  EXPECT_TRUE(pair.isend_fails(pair.from));
  EXPECT_EQ(failure_of(*pair.sender).code, Code::kSystem);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "errno 12"));
}

TEST(SendComm, PollingFails_FailsTheRequest) {
  BufferedPair pair;
  pair.irecv(pair.to);
  Request* send = pair.isend(pair.from);
  pair.verbs.fail_call(fake_verbs::Call::kPollCq, EIO, 0, 2);  // the first is tried again
  Outcome outcome = test_once(send);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kSystem);
}

TEST(SendComm, AfterAFailure_FurtherSendsFailToo) {
  BufferedPair pair;
  pair.sender->connection().fail(Code::kRemote, "the first failure");
  EXPECT_TRUE(pair.isend_fails(pair.from));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "the first failure"));
}

}  // namespace
}  // namespace gdr::transport

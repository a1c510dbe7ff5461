#include "transport/data/send_comm.h"

#include <numeric>

#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

TEST(SendComm, ClearToSendStillOnItsPath_ReturnsNoRequest) {
  CommPair pair;
  Buffer from = pair.sender_buffer(16);
  Buffer to = pair.receiver_buffer(16);
  pair.verbs.hold();
  ASSERT_NE(pair.irecv(to), nullptr);
  EXPECT_EQ(pair.isend(from), nullptr);
  EXPECT_EQ(pair.verbs.deliver(), 1);
  EXPECT_NE(pair.isend(from), nullptr);
}

TEST(SendComm, Message_ArrivesWithItsSize) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1000, 'x');
  Buffer to = pair.receiver_buffer(2000, '.');
  Request* receive = pair.irecv(to);
  Request* send = pair.isend(from);
  Outcome received = finish(receive);
  Outcome sent = finish(send);
  ASSERT_TRUE(received.done && sent.done);
  EXPECT_EQ(received.sizes[0], 1000);
  EXPECT_EQ(sent.sizes[0], 1000);
  EXPECT_EQ(std::string(to.data(), 2000), std::string(1000, 'x') + std::string(1000, '.'));
}

TEST(SendComm, MoreMessagesThanTheRingHolds_AllArriveInOrder) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  for (int i = 0; i < 3 * wire::kSlots + 5; ++i) {
    from.data()[0] = static_cast<char>(i % 127);
    Request* receive = pair.irecv(to);
    Request* send = pair.isend(from);
    ASSERT_TRUE(receive != nullptr && send != nullptr) << i;
    ASSERT_TRUE(finish(receive).done && finish(send).done) << i;
    ASSERT_EQ(to.data()[0], i % 127) << i;
  }
  // The generation counts the rounds of the ring.
  const auto posted = pair.posted_by(*pair.sender);
  EXPECT_EQ(immediate_of(posted.front()).stamp, 0u);
  EXPECT_EQ(immediate_of(posted.back()).stamp, 3u);
  EXPECT_EQ(immediate_of(posted.back()).slot, 4u);
}

// The clear-to-send of the previous round is still in the slot.
TEST(SendComm, RingComesRound_OldClearToSendIsNotUsedAgain) {
  CommPair pair;
  pair.exchange(wire::kSlots);
  Buffer from = pair.sender_buffer(1);
  EXPECT_EQ(pair.isend(from), nullptr);
}

TEST(SendComm, GroupAcrossTheEndOfTheRing_EveryBufferIsFilled) {
  CommPair pair;
  pair.exchange(wire::kSlots - 3);
  pair.verbs.forget_posted();
  Buffer to = pair.receiver_buffer(8);
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 8; ++i) group.push_back({to.data() + i, 1, i, to.memory.get()});
  Request* receive = pair.irecv(group);
  const auto writes = pair.posted_by(*pair.receiver);
  ASSERT_EQ(writes.size(), 2u) << "the ring is written in two parts";
  EXPECT_EQ(writes[0].bytes, 3 * sizeof(wire::ClearToSend));
  EXPECT_EQ(writes[1].bytes, 5 * sizeof(wire::ClearToSend));
  EXPECT_EQ(writes[1].remote_address, end_of(*pair.sender).tables_address);
  Buffer from = pair.sender_buffer(8);
  std::iota(from.data(), from.data() + 8, 'a');
  for (int i = 7; i >= 0; --i) {
    ASSERT_FALSE(test_once(receive).done);
    ASSERT_NE(pair.isend(from.data() + i, 1, from, i), nullptr);
  }
  ASSERT_TRUE(finish(receive).done);
  EXPECT_EQ(std::string(to.data(), 8), "abcdefgh");
}

TEST(SendComm, EightTagsServedOutOfOrder_EachReachesItsBuffer) {
  CommPair pair;
  Buffer to = pair.receiver_buffer(8 * 16, '.');
  Buffer from = pair.sender_buffer(16);
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 8; ++i) group.push_back({to.data() + 16 * i, 16, 100 + i, to.memory.get()});
  Request* receive = pair.irecv(group);
  for (int i : {3, 7, 0, 5, 1, 6, 2, 4}) {
    std::memset(from.data(), 'a' + i, 16);
    Request* send = pair.isend(from.data(), static_cast<size_t>(i) + 1, from, 100 + i);
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
  CommPair pair;
  Buffer to = pair.receiver_buffer(3, '.');
  Buffer from = pair.sender_buffer(3);
  std::memcpy(from.data(), "123", 3);
  std::vector<ReceiveBuffer> group;
  for (int i = 0; i < 3; ++i) group.push_back({to.data() + i, 1, 5, to.memory.get()});
  Request* receive = pair.irecv(group);
  for (int i = 0; i < 3; ++i) ASSERT_NE(pair.isend(from.data() + i, 1, from, 5), nullptr);
  ASSERT_TRUE(finish(receive).done);
  EXPECT_EQ(std::string(to.data(), 3), "123");
  EXPECT_EQ(pair.isend(from, 5), nullptr) << "the group is served";
}

TEST(SendComm, TagOfALaterGroup_WaitsUntilTheGroupBeforeIsServed) {
  CommPair pair;
  Buffer to = pair.receiver_buffer(3);
  Buffer from = pair.sender_buffer(1);
  ASSERT_NE(
      pair.irecv({{to.data(), 1, 1, to.memory.get()}, {to.data() + 1, 1, 2, to.memory.get()}}),
      nullptr);
  ASSERT_NE(pair.irecv({{to.data() + 2, 1, 3, to.memory.get()}}), nullptr);
  EXPECT_EQ(pair.isend(from, 3), nullptr);
  EXPECT_NE(pair.isend(from, 2), nullptr);
  EXPECT_EQ(pair.isend(from, 3), nullptr);
  EXPECT_NE(pair.isend(from, 1), nullptr);
  EXPECT_NE(pair.isend(from, 3), nullptr);
}

TEST(SendComm, TagThatNoReceiveHas_ReturnsNoRequest) {
  CommPair pair;
  Buffer to = pair.receiver_buffer(1);
  Buffer from = pair.sender_buffer(1);
  ASSERT_NE(pair.irecv(to, 1), nullptr);
  EXPECT_EQ(pair.isend(from, 2), nullptr);
  EXPECT_FALSE(pair.sender->connection().failed());
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

// Fills the sender's request pool: the receiver completes, the sender never looks.
std::vector<Request*> use_every_request(CommPair& pair, Buffer& from, Buffer& to) {
  std::vector<Request*> sends;
  for (int i = 0; i < pair.sender->most_sends(); ++i) {
    Request* receive = pair.irecv(to);
    sends.push_back(pair.isend(from));
    EXPECT_TRUE(receive != nullptr && sends.back() != nullptr) << i;
    EXPECT_TRUE(finish(receive).done) << i;
  }
  return sends;
}

TEST(SendComm, EveryRequestInUse_ReturnsNoRequestUntilOneIsDone) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  std::vector<Request*> sends = use_every_request(pair, from, to);
  ASSERT_NE(pair.irecv(to), nullptr);
  EXPECT_EQ(pair.isend(from), nullptr);
  EXPECT_TRUE(finish(sends.front()).done);
  EXPECT_NE(pair.isend(from), nullptr);
}

TEST(SendComm, ClearToSendHasAnImpossibleGroupOrBitsOfAnotherVersion_Fails) {
  const struct {
    void (*change)(wire::ClearToSend&);
    const char* text;
  } cases[] = {{[](auto& slot) { slot.group = 0; }, "impossible size"},
               {[](auto& slot) { slot.group = 9; }, "impossible size"},
               {[](auto& slot) { slot.group = 0xff; }, "impossible size"},
               {[](auto& slot) { slot.flags = 4; }, "another version"},
               {[](auto& slot) { slot.reserved[0] = 1; }, "another version"},
               {[](auto& slot) { slot.reserved[1] = 1; }, "another version"}};
  for (const auto& [change, text] : cases) {
    CommPair pair;
    Buffer from = pair.sender_buffer(1);
    wire::ClearToSend& slot = tables_of(*pair.sender).ring[0];
    slot.bytes = slot.group = 1;
    change(slot);
    slot.sequence = end_of(*pair.sender).sequence_base;
    EXPECT_TRUE(pair.isend_fails(from));
    EXPECT_EQ(failure_of(*pair.sender).code, Code::kInternal);
    EXPECT_TRUE(contains(failure_of(*pair.sender).text, text)) << failure_of(*pair.sender).text;
  }
}

struct ErrorCase {
  ibv_wc_status status;
  const char* name;
  const char* hint;
};

// GoogleTest shows a case by this instead of by the bytes of the object.
void PrintTo(const ErrorCase& one, std::ostream* out) { *out << one.name; }

class SendErrors : public testing::TestWithParam<ErrorCase> {};

TEST_P(SendErrors, WorkCompletionFails_NamesBothEndsStatusAndHint) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  pair.irecv(to);
  pair.verbs.fail_transfer(GetParam().status);
  Request* send = pair.isend(from);
  Outcome outcome = test_once(send);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kRemote);
  const std::string text = failure_of(*pair.sender).text;
  char qps[2][32];
  std::snprintf(qps[0], sizeof(qps[0]), "qp 0x%x <->", qp_number(*pair.sender));
  std::snprintf(qps[1], sizeof(qps[1]), "qp 0x%x: ", qp_number(*pair.receiver));
  for (const char* part : {"fake_a:1 lid 1", "fake_b:1 lid 2", static_cast<const char*>(qps[0]),
                           static_cast<const char*>(qps[1]), GetParam().name, GetParam().hint}) {
    EXPECT_TRUE(contains(text, part)) << part << " is not in: " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    SendComm, SendErrors,
    testing::Values(ErrorCase{IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR", "NCCL_IB_TIMEOUT"},
                    ErrorCase{IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR", "ACS"},
                    ErrorCase{IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR", "freed"},
                    ErrorCase{IBV_WC_GENERAL_ERR, "GENERAL_ERR", "dmesg"}),
    [](const auto& error) { return std::string(error.param.name); });

TEST(SendComm, QueuePairBreaks_OutstandingSendsFail) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  pair.irecv(to);
  pair.verbs.hold();
  Request* send = pair.isend(from);
  pair.verbs.break_qp(qp_number(*pair.sender));
  EXPECT_FALSE(test_once(send).alive);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "WR_FLUSH_ERR"));
}

TEST(SendComm, PostingFails_NamesTheErrno) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  pair.irecv(to);
  pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  EXPECT_TRUE(pair.isend_fails(from));
  EXPECT_EQ(failure_of(*pair.sender).code, Code::kSystem);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "errno 12"));
}

TEST(SendComm, PollingFails_FailsTheRequest) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  pair.irecv(to);
  Request* send = pair.isend(from);
  pair.verbs.fail_call(fake_verbs::Call::kPollCq, EIO);
  Outcome outcome = test_once(send);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kSystem);
}

TEST(SendComm, AfterAFailure_FurtherSendsFailToo) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  pair.sender->connection().fail(Code::kRemote, "the first failure");
  EXPECT_TRUE(pair.isend_fails(from));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "the first failure"));
}

}  // namespace
}  // namespace gdr::transport

#include "transport/data/receive_comm.h"

#include <endian.h>

#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

// What a sender that breaks the protocol could write.
void arrive(CommPair& pair, const wire::Immediate& immediate, uint32_t bytes) {
  pair.verbs.inject_arrival(qp_number(*pair.receiver), htobe32(wire::encode(immediate)), bytes);
}

// Into a receive of 64 bytes, which is the first of its comm.
TEST(ReceiveComm, BrokenProtocol_FailsTheConnection) {
  const struct {
    const char* name;
    wire::Immediate immediate;
    uint32_t bytes;
    const char* text;  // a part of the failure's
    uint64_t size_in_table = 0;
    int valid_before = 0;  // chunks of 40 bytes of three that arrive before
  } cases[] = {
      {"next generation", {0, 1, 1, false}, 64, "not posted"},
      {"last generation", {0, 1, 31, false}, 64, "not posted"},
      {"other epoch", {0, 1, 1 << 5, false}, 64, "not posted"},
      {"reserved bit", {0, 1, 1 << 9, false}, 64, "not posted"},
      {"last reserved bit", {0, 1, 1 << 15, false}, 64, "not posted"},
      {"slot without a receive", {2, 1, 0, false}, 64, "not posted"},
      {"more than the buffer", {0, 1, 0, false}, 65, "more data"},
      {"chunks of more than the buffer", {0, 3, 0, false}, 40, "more data", 0, 1},
      {"size in the table is larger", {0, 1, 0, true}, 8, "more data", UINT64_MAX},
      {"coded size is larger", {0, 1, 0, false, true, 1}, 0, "more data"},
      {"coded size and bytes", {0, 1, 0, false, true, 0}, 8, "states its size"},
      {"coded size of another generation", {0, 1, 1, false, true, 0}, 0, "not posted"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    BufferedPair pair(64);
    Request* receive = pair.irecv({pair.to.receive(64, 0), pair.to.receive(64, 1)});
    for (int i = 0; i < one.valid_before; ++i) arrive(pair, {0, 3, 0, false}, 40);
    EXPECT_TRUE(test_once(receive).alive);
    tables_of(*pair.receiver).sizes[0] = one.size_in_table;
    arrive(pair, one.immediate, one.bytes);
    const Outcome outcome = test_once(receive);
    EXPECT_FALSE(outcome.alive);
    EXPECT_EQ(outcome.error, Code::kInternal);
    EXPECT_TRUE(contains(failure_of(*pair.receiver).text, one.text))
        << failure_of(*pair.receiver).text;
  }
}

TEST(ReceiveComm, DataOfTheRoundBeforeOrOfACompleteBuffer_IsAProtocolFailure) {
  for (int posted : {0, int{wire::kSlots}}) {
    BufferedPair pair;
    pair.exchange(posted);
    Request* receive = pair.irecv({pair.to.receive(1, 0), pair.to.receive(1, 1)});
    const wire::Immediate of_first_round{0, 1, 0, false};
    if (posted == 0) {
      arrive(pair, of_first_round, 1);
      EXPECT_TRUE(test_once(receive).alive);
    }
    arrive(pair, of_first_round, 1);
    EXPECT_FALSE(test_once(receive).alive) << posted;
    EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "not posted"));
  }
}

TEST(ReceiveComm, SizeInTheTableOrCoded_IsTheMessagesSize) {
  BufferedPair pair(1000);
  tables_of(*pair.receiver).sizes[0] = 33;
  const std::pair<wire::Immediate, int> sizes[] = {{{0, 1, 0, true}, 33},
                                                   {{1, 1, 0, false, true, 0}, 1000},
                                                   {{2, 1, 0, false, true, 7}, 7 * 128}};
  for (const auto& [immediate, bytes] : sizes) {
    Request* receive = pair.irecv(pair.to);
    arrive(pair, immediate, immediate.size_in_table ? sizeof(uint64_t) : 0);
    EXPECT_EQ(finish(receive).sizes[0], bytes);
  }
}

// A message of two chunks of which one has arrived is not a whole one, whatever comes next.
TEST(ReceiveComm, WholeMessageAfterAChunk_DoesNotCompleteTheReceive) {
  BufferedPair pair(64);
  Request* receive = pair.irecv(pair.to);
  arrive(pair, {0, 2, 0, false}, 8);
  EXPECT_FALSE(test_once(receive).done);
  arrive(pair, {0, 1, 0, false}, 8);
  EXPECT_FALSE(test_once(receive).done);
}

TEST(ReceiveComm, Sizes_MayBeLeftOut) {
  BufferedPair pair(64);
  Request* receive = pair.irecv(pair.to);
  arrive(pair, {0, 1, 0, false}, 64);
  int done = 0;
  Code error{};
  EXPECT_TRUE(test(receive, &done, nullptr, &error));
  EXPECT_EQ(done, 1);
}

TEST(ReceiveComm, EveryRequestInUse_ReturnsNoRequestUntilOneIsDone) {
  BufferedPair pair;
  std::vector<Request*> receives;
  for (int i = 0; i < ReceiveComm::kReceives; ++i) receives.push_back(pair.irecv(pair.to));
  for (Request* receive : receives) ASSERT_NE(receive, nullptr);
  EXPECT_EQ(pair.irecv(pair.to), nullptr);
  ASSERT_NE(pair.isend(pair.from), nullptr);
  ASSERT_TRUE(finish(receives.front()).done);
  EXPECT_NE(pair.irecv(pair.to), nullptr);
}

TEST(ReceiveComm, Refill_KeepsTheReceiveQueueFilled) {
  constexpr int kDepth = SendComm::kRequests + RailSet::kReceiveBatch;
  CommPair pair;
  const uint32_t qp = qp_number(*pair.receiver);
  EXPECT_EQ(pair.verbs.posted_receives(qp), kDepth);
  pair.exchange(63);
  EXPECT_EQ(pair.verbs.posted_receives(qp), kDepth - 63);
  pair.exchange(1);
  EXPECT_EQ(pair.verbs.posted_receives(qp), kDepth) << "64 at a time";
}

TEST(ReceiveComm, RefillFails_FailsTheConnection) {
  BufferedPair pair;
  pair.exchange(63);
  Request* receive = pair.irecv(pair.to);
  pair.isend(pair.from);
  pair.verbs.fail_call(fake_verbs::Call::kPostRecv, ENOMEM);
  (void)test_once(receive);
  EXPECT_TRUE(pair.receiver->connection().failed());
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "posting receives"));
}

TEST(ReceiveComm, FirstReceivesCannotBePosted_FailsTheConnection) {
  CommPair pair(test_options(), false, local_socket_pair(), 1u << 30, [](Fabric& fabric) {
    fabric.verbs.fail_call(fake_verbs::Call::kPostRecv, ENOMEM, /*skip=*/100);
  });
  EXPECT_TRUE(pair.receiver->connection().failed());
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "posting receives on a new QP failed"));
}

TEST(ReceiveComm, AfterAFailure_FurtherReceivesFailToo) {
  BufferedPair pair;
  pair.receiver->connection().fail(Code::kRemote, "the first failure");
  Request* request = nullptr;
  EXPECT_FALSE(pair.receiver->irecv(Arrays(pair.to.receive(1)).get(), &request));
  EXPECT_EQ(request, nullptr);
}

std::vector<size_t> announced(CommPair& pair) {
  std::vector<size_t> entries;
  for (const auto& work : pair.posted_by(*pair.receiver)) {
    EXPECT_EQ(work.opcode, IBV_WR_RDMA_WRITE);
    entries.push_back(work.bytes / sizeof(wire::ClearToSend));
  }
  return entries;
}

TEST(ReceiveComm, ClearToSend_NamesBufferSizeTagAndKey) {
  BufferedPair pair(64);
  pair.irecv({pair.to.receive(48, 7)});
  const wire::ClearToSend& entry = tables_of(*pair.sender).ring[0];
  EXPECT_EQ(entry.address, reinterpret_cast<uint64_t>(pair.to.data()));
  EXPECT_EQ(entry.bytes, 48u);
  EXPECT_EQ(entry.tag, 7);
  EXPECT_EQ(entry.group_and_flags, 1u);
  EXPECT_EQ(entry.rkey[0], pair.to.memory->keys[0].rkey);
  EXPECT_EQ(entry.sequence, end_of(*pair.sender).sequence_base);
}

// With 4 receives known to the sender, further ones are announced three at a time.
TEST(ReceiveComm, ClearToSend_FullPipeline_IsWrittenThreeTogether) {
  BufferedPair pair;
  for (int i = 0; i < 11; ++i) ASSERT_NE(pair.irecv(pair.to), nullptr);
  EXPECT_EQ(announced(pair), (std::vector<size_t>{1, 1, 1, 1, 3, 3}));
  for (const auto& work : pair.posted_by(*pair.receiver)) EXPECT_TRUE(work.is_inline());
}

// A sender that knows fewer receives has less under way.
TEST(ReceiveComm, ClearToSend_LargeReceive_IsWrittenAtOnceWithThoseThatWait) {
  CommPair pair;
  Buffer to = pair.receiver_buffer(64 << 10);
  for (int i = 0; i < 4; ++i) pair.irecv({to.receive(1)});
  pair.irecv({to.receive(1), to.receive((64 << 10) - 1, 1)});
  EXPECT_EQ(announced(pair), (std::vector<size_t>{1, 1, 1, 1}));
  pair.irecv({to.receive(64 << 10), to.receive(1, 1)});
  EXPECT_EQ(announced(pair), (std::vector<size_t>{1, 1, 1, 1, 4}));
}

TEST(ReceiveComm, ClearToSend_PipelineDrains_WaitingReceivesAreAnnounced) {
  BufferedPair pair;
  std::vector<Request*> receives;
  for (int i = 0; i < 6; ++i) receives.push_back(pair.irecv(pair.to));
  EXPECT_EQ(announced(pair), (std::vector<size_t>{1, 1, 1, 1}));
  ASSERT_NE(pair.isend(pair.from), nullptr);
  EXPECT_TRUE(finish(receives[0]).done);
  EXPECT_EQ(announced(pair), (std::vector<size_t>{1, 1, 1, 1, 2}));
  for (int i = 1; i < 6; ++i) {
    ASSERT_NE(pair.isend(pair.from), nullptr) << i;
    EXPECT_TRUE(finish(receives[i]).done) << i;
  }
}

TEST(ReceiveComm, ClearToSend_OneWriteInEightIsSignalled) {
  CommPair pair;
  pair.exchange(64);
  const auto writes = pair.posted_by(*pair.receiver);
  ASSERT_EQ(writes.size(), 64u);
  for (size_t i = 0; i < writes.size(); ++i) {
    EXPECT_EQ(writes[i].is_signalled(), i % 8 == 7) << i;
  }
}

// Arrivals are forged, so that receives complete while the sender's memory is out of reach.
TEST(ReceiveComm, ClearToSendNotAcknowledged_IrecvWaitsBeforeTheSendQueueIsFull) {
  BufferedPair pair;
  pair.verbs.hold();
  uint64_t posted = 0;
  for (; posted < 1000; ++posted) {
    Request* receive = pair.irecv(pair.to);
    if (receive == nullptr) break;
    arrive(pair, {wire::slot_of(posted), 1, wire::stamp_of(posted), false}, 1);
    ASSERT_TRUE(finish(receive).done);
  }
  EXPECT_EQ(posted, 19u) << "four entries are left for announcements, eight for the recovery";
  EXPECT_FALSE(pair.receiver->connection().failed());
  pair.verbs.release();
  EXPECT_EQ(pair.irecv(pair.to), nullptr) << "this call reads the completions";
  EXPECT_NE(pair.irecv(pair.to), nullptr);
}

TEST(ReceiveComm, PostingAClearToSendFails_NamesTheErrno) {
  BufferedPair pair;
  pair.verbs.fail_call(fake_verbs::Call::kPostSend, ENOMEM);
  Request* request = nullptr;
  EXPECT_FALSE(pair.receiver->irecv(Arrays(pair.to.receive(1)).get(), &request));
  EXPECT_TRUE(contains_all(failure_of(*pair.receiver).text, {"clear-to-send", "errno 12"}));
}

TEST(ReceiveComm, SenderIsGone_ClearToSendFails) {
  BufferedPair pair;
  pair.verbs.fail_transfer(IBV_WC_RETRY_EXC_ERR);
  Request* receive = pair.irecv(pair.to);
  Outcome outcome = test_once(receive);
  EXPECT_FALSE(outcome.alive);
  EXPECT_EQ(outcome.error, Code::kRemote);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "RETRY_EXC_ERR"));
}

}  // namespace
}  // namespace gdr::transport

#include "transport/data/send_comm.h"

#include <endian.h>

#include <numeric>

#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

wire::Immediate immediate_of(const fake_verbs::Posted& work) {
  return wire::decode(be32toh(work.imm_data));
}

bool ends_chunk(const fake_verbs::Posted& work) {
  return work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

TEST(SendComm, BeforeClearToSend_ReturnsNoRequestAndPostsNothing) {
  CommPair pair;
  Buffer from = pair.sender_buffer(16);
  EXPECT_EQ(pair.isend(from), nullptr);
  EXPECT_TRUE(pair.verbs.posted().empty());
}

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

TEST(SendComm, WriteNotAcknowledged_RequestStaysOpen) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1000);
  Buffer to = pair.receiver_buffer(1000);
  Request* receive = pair.irecv(to);
  pair.verbs.hold();
  Request* send = pair.isend(from);
  EXPECT_FALSE(test_once(send).done);
  EXPECT_FALSE(test_once(receive).done);
  pair.verbs.release();
  EXPECT_TRUE(test_once(receive).done);
  EXPECT_TRUE(test_once(send).done);
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
  EXPECT_EQ(immediate_of(posted.front()).generation, 0u);
  EXPECT_EQ(immediate_of(posted.back()).generation, 3u);
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
  EXPECT_TRUE(contains(failure.text, "1001 bytes")) << failure.text;
  EXPECT_TRUE(contains(failure.text, "999 bytes")) << failure.text;
  EXPECT_TRUE(contains(failure.text, "tag 42")) << failure.text;
  EXPECT_TRUE(pair.posted_by(*pair.sender).empty());
  // The reason travels over the socket, which the watcher thread reads.
  ASSERT_TRUE(wait_for([&] { return pair.receiver->connection().failed(); }));
  EXPECT_FALSE(test_once(receive).alive);
  EXPECT_TRUE(contains(failure_of(*pair.receiver).text, "1001 bytes"));
}

TEST(SendComm, ExactlyAsLargeAsTheReceive_Arrives) {
  CommPair pair;
  Buffer from = pair.sender_buffer(999);
  Buffer to = pair.receiver_buffer(999);
  Request* receive = pair.irecv(to);
  ASSERT_NE(pair.isend(from), nullptr);
  EXPECT_EQ(finish(receive).sizes[0], 999);
}

TEST(SendComm, SmallHostMessage_IsInline) {
  CommPair pair;
  Buffer from = pair.sender_buffer(65);
  Buffer to = pair.receiver_buffer(65);
  for (size_t bytes : {64, 65}) {
    pair.irecv(to);
    ASSERT_NE(pair.isend(from.data(), bytes, from), nullptr);
    EXPECT_EQ(pair.posted_by(*pair.sender).back().is_inline(), bytes == 64);
  }
}

// The CPU would have to read it.
TEST(SendComm, SmallGpuMessage_IsNotInline) {
  CommPair pair;
  Buffer from = pair.sender_buffer(8);
  Buffer to = pair.receiver_buffer(8);
  from.pose_as_gpu_memory();
  pair.irecv(to);
  ASSERT_NE(pair.isend(from), nullptr);
  EXPECT_FALSE(pair.posted_by(*pair.sender).back().is_inline());
}

TEST(SendComm, SeveralQpsWithoutSplit_MessagesTakeTurns) {
  TransportOptions options = test_options();
  options.connection.qps_per_connection = 3;
  CommPair pair(options);
  pair.exchange(7);
  const auto posted = pair.posted_by(*pair.sender);
  ASSERT_EQ(posted.size(), 7u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(posted[i].qp_num, qp_number(*pair.sender, i % 3)) << i;
}

class SplitSizes : public testing::TestWithParam<size_t> {};

TEST_P(SplitSizes, SplitOverFourQps_ChunksAreAlignedAndCounted) {
  const size_t bytes = GetParam();
  TransportOptions options = test_options();
  options.connection.qps_per_connection = 4;
  options.connection.split_data_on_qps = true;
  CommPair pair(options);
  Buffer from = pair.sender_buffer(bytes);
  for (size_t i = 0; i < bytes; ++i) from.data()[i] = static_cast<char>(i * 7 % 251);
  Buffer to = pair.receiver_buffer(bytes);
  Request* receive = pair.irecv(to);
  Request* send = pair.isend(from);
  const auto chunks = pair.posted_by(*pair.sender);

  const size_t chunk_bytes = (((bytes + 3) / 4) + 127) / 128 * 128;
  const size_t expected = bytes <= 128 ? 1 : (bytes + chunk_bytes - 1) / chunk_bytes;
  ASSERT_EQ(chunks.size(), expected);
  size_t sum = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_TRUE(ends_chunk(chunks[i]) && chunks[i].is_signalled());
    EXPECT_EQ(immediate_of(chunks[i]).chunks, expected);
    EXPECT_EQ(chunks[i].qp_num, qp_number(*pair.sender, static_cast<int>(i)));
    EXPECT_EQ(chunks[i].remote_address, reinterpret_cast<uint64_t>(to.data()) + sum);
    const bool last = i + 1 == chunks.size();
    EXPECT_TRUE(last || chunks[i].bytes % wire::kSplitAlignment == 0) << i;
    sum += chunks[i].bytes;
  }
  EXPECT_EQ(sum, bytes);
  Outcome received = finish(receive);
  ASSERT_TRUE(received.done);
  EXPECT_EQ(received.sizes[0], static_cast<int>(bytes));
  EXPECT_EQ(to.bytes, from.bytes);
  EXPECT_TRUE(finish(send).done);
}

INSTANTIATE_TEST_SUITE_P(SendComm, SplitSizes,
                         testing::Values(0, 1, 127, 128, 129, 256, 257, 511, 512, 513, 1000,
                                         (1 << 20) - 1, (1 << 20) + 1),
                         testing::PrintToStringParamName());

TEST(SendComm, ChunksArriveInAnyOrderOfTheQps_ReceiveCompletesWithTheLast) {
  TransportOptions options = test_options();
  options.connection.qps_per_connection = 4;
  options.connection.split_data_on_qps = true;
  CommPair pair(options);
  Buffer from = pair.sender_buffer(4 * 128);
  Buffer to = pair.receiver_buffer(4 * 128);
  Request* receive = pair.irecv(to);
  pair.verbs.hold();
  Request* send = pair.isend(from);
  for (int qp : {2, 0, 3}) {
    EXPECT_EQ(pair.verbs.deliver_on(qp_number(*pair.sender, qp)), 1);
    EXPECT_FALSE(test_once(receive).done);
    EXPECT_FALSE(test_once(send).done);
  }
  pair.verbs.release();
  Outcome received = test_once(receive);
  EXPECT_TRUE(received.done);
  EXPECT_EQ(received.sizes[0], 4 * 128);
  EXPECT_TRUE(test_once(send).done);
}

// ---- adaptive routing: packets of one QP may overtake each other, so a large message ends in a
// write of its own, which carries the size

TransportOptions adaptive(size_t threshold) {
  TransportOptions options = test_options();
  options.connection.adaptive_routing = true;
  options.connection.adaptive_routing_threshold = threshold;
  return options;
}

struct Writes {
  size_t data;  // plain writes
  size_t ends;  // with immediate
  size_t doorbells;
};

Writes writes_for(CommPair& pair, size_t bytes) {
  Buffer from = pair.sender_buffer(bytes + 1, 'x');
  Buffer to = pair.receiver_buffer(bytes + 1, '.');
  Request* receive = pair.irecv(to);
  pair.verbs.forget_posted();
  Request* send = pair.isend(from.data(), bytes, from);
  Writes writes{0, 0, pair.verbs.doorbells()};
  for (const auto& work : pair.posted_by(*pair.sender)) {
    ++(ends_chunk(work) ? writes.ends : writes.data);
    EXPECT_EQ(work.is_signalled(), ends_chunk(work));
  }
  Outcome received = finish(receive);
  EXPECT_TRUE(received.done && finish(send).done);
  EXPECT_EQ(received.sizes[0], static_cast<int>(bytes));
  EXPECT_EQ(std::string(to.data(), bytes + 1), std::string(bytes, 'x') + ".");
  return writes;
}

TEST(SendComm, AdaptiveRouting_AboveTheThreshold_EndsInASeparateWriteOfTheSize) {
  CommPair pair(adaptive(1000));
  Writes at = writes_for(pair, 1000);
  EXPECT_EQ(at.data, 0u);
  EXPECT_EQ(at.ends, 1u);
  Writes above = writes_for(pair, 1001);
  EXPECT_EQ(above.data, 1u);
  EXPECT_EQ(above.ends, 1u);
  EXPECT_EQ(above.doorbells, 1u) << "both are posted with one call";
  EXPECT_EQ(tables_of(*pair.receiver).sizes[1], 1001u);
}

TEST(SendComm, AdaptiveRouting_ThresholdZero_LeavesEmptyMessagesWhole) {
  CommPair pair(adaptive(0));
  EXPECT_EQ(writes_for(pair, 0).data, 0u);
  EXPECT_EQ(writes_for(pair, 1).data, 1u);
}

TEST(SendComm, AdaptiveRouting_SplitMessage_EveryChunkHasItsOwnEnd) {
  TransportOptions options = adaptive(256);
  options.connection.qps_per_connection = 2;
  options.connection.split_data_on_qps = true;
  CommPair pair(options);
  Writes writes = writes_for(pair, 1000);
  EXPECT_EQ(writes.data, 2u);
  EXPECT_EQ(writes.ends, 2u);
  EXPECT_EQ(writes.doorbells, 2u);
}

TEST(SendComm, AdaptiveRoutingUnset_IsOnForInfiniBandAndOffForRoce) {
  TransportOptions options = test_options();
  options.connection.adaptive_routing.reset();
  EXPECT_EQ(writes_for(*std::make_unique<CommPair>(options), 8192).data, 0u);
  EXPECT_EQ(writes_for(*std::make_unique<CommPair>(options), 8193).data, 1u);
  EXPECT_EQ(writes_for(*std::make_unique<CommPair>(options, true), 8193).data, 0u);
}

// Two work requests for each message, none of which is known to be complete.
TEST(SendComm, AdaptiveRouting_EveryRequestInUse_FitsTheSendQueue) {
  CommPair pair(adaptive(0));
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  std::vector<Request*> sends;
  for (int i = 0; i < SendComm::kRequests; ++i) {
    Request* receive = pair.irecv(to);
    sends.push_back(pair.isend(from));
    ASSERT_TRUE(receive != nullptr && sends.back() != nullptr) << i;
    ASSERT_TRUE(finish(receive).done) << i;
  }
  EXPECT_EQ(pair.posted_by(*pair.sender).size(), 2u * SendComm::kRequests);
  for (Request* send : sends) EXPECT_TRUE(finish(send).done);
}

// ---- limits and failures

// Fills the sender's request pool: the receiver completes, the sender never looks.
std::vector<Request*> use_every_request(CommPair& pair, Buffer& from, Buffer& to) {
  std::vector<Request*> sends;
  for (int i = 0; i < SendComm::kRequests; ++i) {
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

TEST(SendComm, ClearToSendNamesAnImpossibleGroup_Fails) {
  for (uint16_t count : {0, 9, 0xffff}) {
    CommPair pair;
    Buffer from = pair.sender_buffer(1);
    wire::ClearToSend& entry = tables_of(*pair.sender).ring[0];
    entry.group = count;
    entry.sequence = end_of(*pair.sender).sequence_base;
    Request* request = nullptr;
    EXPECT_FALSE(pair.sender->isend(from.data(), 1, 0, *from.memory, &request));
    EXPECT_EQ(failure_of(*pair.sender).code, Code::kInternal);
    EXPECT_TRUE(contains(failure_of(*pair.sender).text, "impossible size"));
  }
}

struct ErrorCase {
  ibv_wc_status status;
  const char* name;
  const char* hint;
};

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

TEST(SendComm, BufferDeregisteredAtTheReceiver_FailsWithRemoteAccess) {
  CommPair pair;
  Buffer from = pair.sender_buffer(1);
  Buffer to = pair.receiver_buffer(1);
  pair.irecv(to);
  to.memory.reset();
  EXPECT_FALSE(test_once(pair.isend(from)).alive);
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "REM_ACCESS_ERR"));
}

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
  Request* request = nullptr;
  EXPECT_FALSE(pair.sender->isend(from.data(), 1, 0, *from.memory, &request));
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
  Request* request = nullptr;
  EXPECT_FALSE(pair.sender->isend(from.data(), 1, 0, *from.memory, &request));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "the first failure"));
}

TEST(SendComm, Text_NamesHowMessagesGo) {
  TransportOptions options = adaptive(4096);
  options.connection.qps_per_connection = 2;
  options.connection.split_data_on_qps = true;
  const std::string text = CommPair(options).sender->text();
  for (const char* part : {"fake_a:1", "fake_b:1", "2 QP(s)", "split", "adaptive", "4096"}) {
    EXPECT_TRUE(contains(text, part)) << text;
  }
}

}  // namespace
}  // namespace gdr::transport

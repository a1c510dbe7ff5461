// How SendComm puts a message on the wire: inline, over several QPs, in chunks, and with an end of
// its own.
#include "tests/unit/transport/comm_pair.h"
#include "transport/data/send_comm.h"

namespace gdr::transport {
namespace {

bool ends_chunk(const fake_verbs::Posted& work) {
  return work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
// Not where there are no bytes, which no other program sends inline.
TEST(SendChunks, SmallHostMessage_IsInline) {
  BufferedPair pair(61);
  for (size_t bytes : {0, 1, 60, 61}) {
    pair.irecv(pair.to);
    ASSERT_NE(pair.isend(pair.from.data(), bytes, pair.from), nullptr);
    EXPECT_EQ(pair.posted_by(*pair.sender).back().is_inline(), bytes == 1 || bytes == 60) << bytes;
  }
}

// The CPU would have to read it.
TEST(SendChunks, SmallGpuMessage_IsNotInline) {
  BufferedPair pair(8);
  pair.from.pose_as_gpu_memory();
  pair.irecv(pair.to);
  ASSERT_NE(pair.isend(pair.from), nullptr);
  EXPECT_FALSE(pair.posted_by(*pair.sender).back().is_inline());
}

void expect_split_over_four_qps(size_t bytes) {
  BufferedPair pair(bytes, options_of_qps(4, /*split=*/true));
  for (size_t i = 0; i < bytes; ++i) pair.from.data()[i] = static_cast<char>(i * 7 % 251);
  Request* receive = pair.irecv(pair.to);
  Request* send = pair.isend(pair.from);
  const auto chunks = pair.posted_by(*pair.sender);

  const size_t chunk_bytes = (((bytes + 3) / 4) + 127) / 128 * 128;
  const size_t expected = bytes <= 128 ? 1 : (bytes + chunk_bytes - 1) / chunk_bytes;
  ASSERT_EQ(chunks.size(), expected);
  size_t sum = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_TRUE(ends_chunk(chunks[i]) && chunks[i].is_signalled());
    EXPECT_EQ(immediate_of(chunks[i]).chunks, expected);
    EXPECT_EQ(chunks[i].qp_num, qp_number(*pair.sender, static_cast<int>(i)));
    EXPECT_EQ(chunks[i].remote_address, reinterpret_cast<uint64_t>(pair.to.data()) + sum);
    const bool last = i + 1 == chunks.size();
    EXPECT_TRUE(last || chunks[i].bytes % wire::kSplitAlignment == 0) << i;
    sum += chunks[i].bytes;
  }
  EXPECT_EQ(sum, bytes);
  const Outcome received = finish(receive);
  ASSERT_TRUE(received.done);
  EXPECT_EQ(received.sizes[0], static_cast<int>(bytes));
  EXPECT_EQ(pair.to.bytes, pair.from.bytes);
  EXPECT_TRUE(finish(send).done);
}

TEST(SendChunks, SplitOverFourQps_ChunksAreAlignedAndCounted) {
  for (size_t bytes : {0, 1, 127, 128, 129, 256, 257, 511, 512, 513, 1000, (1 << 20) - 1}) {
    SCOPED_TRACE(bytes);
    expect_split_over_four_qps(bytes);
  }
}

TEST(SendChunks, ChunksArriveInAnyOrderOfTheQps_ReceiveCompletesWithTheLast) {
  BufferedPair pair(4 * 128, options_of_qps(4, /*split=*/true));
  Request* receive = pair.irecv(pair.to);
  pair.verbs.hold();
  Request* send = pair.isend(pair.from);
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

// Under adaptive routing the packets of one QP may overtake each other, so a large message ends in
// a write of its own. That has no bytes where the immediate states the size, else it is the size.
struct Writes {
  size_t data;  // plain writes
  size_t ends;  // with immediate
  size_t doorbells;
  size_t end_bytes;  // of the last end
};

// room: of the receive, in which the message takes the first bytes.
Writes writes_for(CommPair& pair, size_t bytes, size_t room) {
  Buffer from = pair.sender_buffer(bytes + 1, 'x');
  Buffer to = pair.receiver_buffer(room, '.');
  Request* receive = pair.irecv(to);
  pair.verbs.forget_posted();
  Request* send = pair.isend(from.data(), bytes, from);
  Writes writes{0, 0, pair.verbs.doorbells(), 0};
  for (const auto& work : pair.posted_by(*pair.sender)) {
    ++(ends_chunk(work) ? writes.ends : writes.data);
    writes.end_bytes = work.bytes;
    EXPECT_EQ(work.is_signalled(), ends_chunk(work));
  }
  const Outcome received = finish(receive), sent = finish(send);
  EXPECT_TRUE(received.done && sent.done);
  EXPECT_EQ(received.sizes[0], static_cast<int>(bytes));
  EXPECT_EQ(sent.sizes[0], static_cast<int>(bytes));
  EXPECT_EQ(std::string(to.data(), room), std::string(bytes, 'x') + std::string(room - bytes, '.'));
  return writes;
}

Writes writes_for(CommPair& pair, size_t bytes) { return writes_for(pair, bytes, bytes + 1); }

TEST(SendChunks, AdaptiveRouting_SizeThatTheImmediateStates_EndsInAWriteOfNoBytes) {
  CommPair pair(adaptive_options(1000));
  struct Message {
    size_t bytes;
    size_t room;
    size_t end_bytes;
  };
  // As large as the buffer; a multiple of 128 bytes; neither; the largest of which 128 bytes are
  // the unit, with and without; and a multiple of the unit of a larger buffer.
  const Message messages[] = {{1001, 1001, 0},
                              {1024, 5000, 0},
                              {1025, 5000, 8},
                              {(1 << 20) - 256, (1 << 20) - 1, 0},
                              {(1 << 20) - 1, 1 << 20, 8},
                              {(1 << 20) + 256, 1 << 21, 8},
                              {(1 << 20) + 512, 1 << 21, 0}};
  for (const Message& message : messages) {
    const Writes writes = writes_for(pair, message.bytes, message.room);
    EXPECT_EQ(writes.data, 1u) << message.bytes;
    EXPECT_EQ(writes.ends, 1u) << message.bytes;
    EXPECT_EQ(writes.doorbells, 1u) << message.bytes;
    EXPECT_EQ(writes.end_bytes, message.end_bytes) << message.bytes << " of " << message.room;
  }
}

TransportOptions with_unset_adaptive_routing() {
  TransportOptions options = test_options();
  options.connection.adaptive_routing.reset();
  return options;
}

TransportOptions with_split_and_adaptive_routing() {
  TransportOptions options = options_of_qps(2, /*split=*/true);
  options.connection.adaptive_routing = true;
  options.connection.adaptive_routing_threshold = 256;
  return options;
}

TEST(SendChunks, RoutingThresholdSplitAndPort_DecideHowManyWritesThereAre) {
  const struct {
    const char* name;
    TransportOptions options;
    size_t bytes;
    size_t data;
    size_t ends;
    bool roce = false;
    uint32_t max_msg_sz = 1u << 30;
  } cases[] = {
      {"at the threshold", adaptive_options(1000), 1000, 0, 1},
      {"above the threshold", adaptive_options(1000), 1001, 1, 1},
      {"an empty message and no threshold", adaptive_options(0), 0, 0, 1},
      {"no threshold", adaptive_options(0), 1, 1, 1},
      {"split", with_split_and_adaptive_routing(), 1000, 2, 2},
      {"at the default threshold", with_unset_adaptive_routing(), 8192, 0, 1},
      {"on by default", with_unset_adaptive_routing(), 8193, 1, 1},
      {"off by default on RoCE", with_unset_adaptive_routing(), 8193, 0, 1, true},
      {"the port's largest message", test_options(), kPortsMost, 0, 1, false, kPortsMost},
      {"larger", test_options(), 2 * kPortsMost + 1, 0, 3, false, kPortsMost},
      {"larger and split", options_of_qps(2, true), 3 * kPortsMost, 0, 3, false, kPortsMost},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    CommPair pair(one.options, one.roce, local_socket_pair(), one.max_msg_sz);
    const Writes writes = writes_for(pair, one.bytes);
    EXPECT_EQ(writes.data, one.data);
    EXPECT_EQ(writes.ends, one.ends);
    if (one.max_msg_sz > kPortsMost) {
      EXPECT_EQ(writes.doorbells, one.ends) << "data and end of a QP are posted with one call";
    }
  }
}

// 32 bits would hold none of its bytes.
TEST(SendChunks, FourGib_GoesAsAWhole) {
  BufferedPair pair;
  constexpr size_t kBytes = size_t{1} << 32;
  pair.irecv({{pair.to.data(), kBytes, 0, pair.to.memory.get()}});
  pair.verbs.hold();  // there is no memory of that size
  pair.verbs.forget_posted();
  ASSERT_NE(pair.isend(pair.from.data(), kBytes, pair.from), nullptr);
  const auto posted = pair.posted_by(*pair.sender);
  ASSERT_EQ(posted.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(posted[i].bytes, 1u << 30);
    EXPECT_EQ(posted[i].remote_address, reinterpret_cast<uint64_t>(pair.to.data()) + (i << 30));
    EXPECT_EQ(immediate_of(posted[i]).chunks, 4u);
  }
}

// What the plugin states as its largest message (maxP2pBytes).
TEST(SendChunks, LargestMessage_Arrives) {
  for (const TransportOptions& options : {test_options(), adaptive_options(0)}) {
    BufferedPair pair(largest_message(kPortsMost), options, kPortsMost);
    Request* receive = pair.irecv(pair.to);
    Request* send = pair.isend(pair.from);
    ASSERT_TRUE(send != nullptr && receive != nullptr) << failure_of(*pair.sender).text;
    EXPECT_TRUE(finish(send).done);
    EXPECT_TRUE(finish(receive).done);
    EXPECT_EQ(pair.from.bytes, pair.to.bytes);
  }
}

TEST(SendChunks, Text_NamesHowMessagesGo) {
  TransportOptions options = adaptive_options(4096);
  options.connection.qps_per_connection = 2;
  options.connection.split_data_on_qps = true;
  const std::string text = CommPair(options).sender->text();
  EXPECT_TRUE(contains_all(text, {"fake_a:1", "fake_b:1", "2 QP(s)", "split", "adaptive", "4096"}));
}

}  // namespace
}  // namespace gdr::transport

#include "transport/wire/frame_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace gdr::transport {
namespace {

class FrameChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    channel_ = FrameChannel(UniqueFd(fds[0]));
    raw_ = UniqueFd(fds[1]);
  }
  void feed(const void* data, size_t bytes) {
    ASSERT_EQ(write(raw_.get(), data, bytes), static_cast<ssize_t>(bytes));
  }
  FrameChannel channel_;
  UniqueFd raw_;
};

TEST_F(FrameChannelTest, Receive_NothingArrived_IsNotAnError) {
  auto frame = channel_.receive();
  ASSERT_TRUE(frame.has_value());
  EXPECT_FALSE(frame->has_value());
}

// Statements are repeated for as long as the connection lives.
TEST_F(FrameChannelTest, SendingHasFailed_NothingIsKeptForLater) {
  raw_.reset();
  channel_.queue_text(wire::FrameKind::kState, "lost");
  EXPECT_EQ(channel_.flush().error().sys_errno, EPIPE);
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  UniqueFd here(fds[0]), there(fds[1]);
  ASSERT_EQ(dup2(here.get(), channel_.fd()), channel_.fd());
  channel_.queue_text(wire::FrameKind::kState, "lost, too");
  EXPECT_EQ(channel_.flush().error().sys_errno, EPIPE) << "the first error counts";
  char byte;
  EXPECT_EQ(read(there.get(), &byte, 1), -1);
}

TEST_F(FrameChannelTest, Receive_FrameByteByByte_ArrivesWhole) {
  FrameChannel peer(std::move(raw_));
  peer.queue_text(wire::FrameKind::kFailed, "rail 0 \x01 down");
  ASSERT_TRUE(peer.flush().value());
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  FrameChannel slow{UniqueFd(fds[0])};
  UniqueFd feeder(fds[1]);
  uint8_t bytes[64];
  ssize_t n = read(channel_.fd(), bytes, sizeof(bytes));
  ASSERT_GT(n, 0);
  for (ssize_t i = 0; i < n; ++i) {
    auto early = slow.receive();
    ASSERT_TRUE(early.has_value());
    ASSERT_FALSE(early->has_value());
    ASSERT_EQ(write(feeder.get(), bytes + i, 1), 1);
  }
  auto frame = slow.receive();
  ASSERT_TRUE(frame.has_value() && frame->has_value());
  EXPECT_EQ((*frame)->kind, wire::FrameKind::kFailed);
  EXPECT_EQ((*frame)->text(), "rail 0 ? down");
}

TEST_F(FrameChannelTest, Receive_TwoFramesAtOnce_ArriveOneByOne) {
  FrameChannel peer(std::move(raw_));
  peer.queue(wire::FrameKind::kReady, nullptr, 0);
  peer.queue(wire::FrameKind::kBye, nullptr, 0);
  ASSERT_TRUE(peer.flush().value());
  EXPECT_EQ(channel_.receive().value()->kind, wire::FrameKind::kReady);
  EXPECT_EQ(channel_.receive().value()->kind, wire::FrameKind::kBye);
  EXPECT_FALSE(channel_.receive().value().has_value());
}

TEST_F(FrameChannelTest, StreamEnds_PeerReadsTheFramesAndThenTheEnd) {
  FrameChannel peer(std::move(raw_));
  peer.queue(wire::FrameKind::kBye, nullptr, 0);
  ASSERT_TRUE(peer.flush().value());
  ASSERT_EQ(shutdown(peer.fd(), SHUT_WR), 0);
  EXPECT_EQ(channel_.receive().value()->kind, wire::FrameKind::kBye);
  Result<std::optional<Frame>> end = channel_.receive();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().sys_errno, 0);
  EXPECT_FALSE(peer.receive().value().has_value()) << "the other direction stays open";
}

// The header that version 3 sent, as it was on the wire.
TEST_F(FrameChannelTest, Receive_FrameOfVersion3_NamesBothVersionsAndTheFix) {
  const uint8_t hello_of_3[] = {'G', 'D', 'R', 'G', 3, 0, 1, 0, 0x40, 5, 0, 0};
  feed(hello_of_3, sizeof(hello_of_3));
  auto frame = channel_.receive();
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().code, Code::kInvalidUsage);
  EXPECT_EQ(frame.error().text,
            "the peer runs wire version 3, this side 9. Fix: install the same release of "
            "nccl-net-gdr on every node");
}

TEST_F(FrameChannelTest, Receive_HeaderOfNoFrame_IsAnError) {
  using wire::FrameKind;
  const wire::FrameHeader headers[] = {
      {0x20544547, 0x202f, FrameKind{0x48}, 0x54, 0x312f5054},  // "GET / HTTP/1"
      {wire::kMagic, wire::kWireVersion, FrameKind::kBye, 1, 0},
      {wire::kMagic, wire::kWireVersion, FrameKind::kHello, 0, 0x7fffffff},
      {wire::kMagic, wire::kWireVersion, FrameKind::kFailed, 0, wire::kMaxText + 1}};
  for (const wire::FrameHeader& header : headers) {
    SetUp();
    feed(&header, sizeof(header));
    EXPECT_FALSE(channel_.receive().has_value()) << &header - headers;
  }
}

TEST_F(FrameChannelTest, Receive_PeerClosed_IsRemoteError) {
  raw_.reset();
  auto frame = channel_.receive();
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().code, Code::kRemote);
}

wire::EndPoint smallest_end() {
  wire::EndPoint end{};
  end.rails = 1;
  end.qps = 1;
  end.qp[0].number = 0x11;
  return end;
}

Frame hello_of(const wire::EndPoint& end) {
  auto* begin = reinterpret_cast<const uint8_t*>(&end);
  return Frame{wire::FrameKind::kHello, {begin, begin + sizeof(end)}};
}

TEST_F(FrameChannelTest, EndPoint_InvalidCountsAndFieldsThatThisVersionDoesNotKnow_AreRejected) {
  using Change = void (*)(wire::EndPoint&);
  const Change changes[] = {
      [](wire::EndPoint& end) { end.qps = wire::kMaxQps + 1; },
      [](wire::EndPoint& end) { end.rails = wire::kMaxRails + 1; },
      [](wire::EndPoint& end) { end.rails = 0; },
      [](wire::EndPoint& end) { end.recovers = 2; },
      [](wire::EndPoint& end) { end.service_level = 16; },
      [](wire::EndPoint& end) { end.reserved[15] = 1; },
      [](wire::EndPoint& end) { end.qp[0].rail = 1; },
      [](wire::EndPoint& end) { end.qp[0].number = 0; },
      [](wire::EndPoint& end) { end.qp[0].number = 1 << 24; },
      [](wire::EndPoint& end) { end.qp[0].ece_supported = 2; },
      [](wire::EndPoint& end) { end.qp[0].standby = 2; },
      [](wire::EndPoint& end) { end.qp[0].reserved = 1; },
      [](wire::EndPoint& end) { end.rail[0].needs_grh = 2; },
      [](wire::EndPoint& end) { end.rail[0].reserved[2] = 1; },
  };
  EXPECT_TRUE(hello_of(smallest_end()).end_point().has_value());
  EXPECT_FALSE((Frame{wire::FrameKind::kHello, std::vector<uint8_t>(10)}).end_point().has_value());
  int number = 0;
  for (const Change change : changes) {
    wire::EndPoint end = smallest_end();
    change(end);
    auto parsed = hello_of(end).end_point();
    ASSERT_FALSE(parsed.has_value()) << number;
    EXPECT_EQ(parsed.error().code, Code::kInternal) << number++;
  }
}

TEST_F(FrameChannelTest, EndPoint_StandbyPairsWhereThereCanBeNone_AreRejected) {
  wire::EndPoint end = smallest_end();
  end.recovers = 1;
  end.qps = 3;
  end.qp[1] = end.qp[2] = end.qp[0];
  const auto is_accepted = [&](const std::array<bool, 3>& standby) {
    for (size_t i = 0; i < 3; ++i) end.qp[i].standby = standby[i] ? 1 : 0;
    return hello_of(end).end_point().has_value();
  };
  EXPECT_TRUE(is_accepted({false, false, false}));
  EXPECT_TRUE(is_accepted({false, false, true}));
  EXPECT_TRUE(is_accepted({false, true, true}));
  EXPECT_FALSE(is_accepted({true, true, true})) << "none carries data";
  EXPECT_FALSE(is_accepted({true, false, false}));
  EXPECT_FALSE(is_accepted({false, true, false})) << "it is not the last one";
  end.recovers = 0;
  EXPECT_TRUE(is_accepted({false, false, false}));
  EXPECT_FALSE(is_accepted({false, false, true})) << "the sender does not recover";
  Frame reply = hello_of(end);
  reply.kind = wire::FrameKind::kReply;
  EXPECT_TRUE(reply.end_point().has_value()) << "they are the sender's, and this end has none";
}

// They go into log lines and into texts for the peer.
TEST_F(FrameChannelTest, EndPoint_Names_AreTerminatedAndPrintable) {
  wire::EndPoint end = smallest_end();
  std::memset(end.host, 'h', sizeof(end.host));
  std::memset(end.rail[0].hca, 'd', sizeof(end.rail[0].hca));
  auto parsed = hello_of(end).end_point();
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::strlen(parsed->host), sizeof(end.host) - 1);
  EXPECT_EQ(std::strlen(parsed->rail[0].hca), sizeof(end.rail[0].hca) - 1);
  std::strcpy(end.host, "node\nA\x1b");
  std::strcpy(end.rail[0].hca, "mlx5\xff_0");
  parsed = hello_of(end).end_point();
  ASSERT_TRUE(parsed.has_value());
  EXPECT_STREQ(parsed->host, "node?A?");
  EXPECT_STREQ(parsed->rail[0].hca, "mlx5?_0");
}

wire::PairStatement down_statement() {
  wire::PairStatement statement{};
  statement.serial_first = statement.serial_last = 3;
  statement.step = 1;
  statement.pair = wire::kMaxQps - 1;
  statement.asks = 1;
  statement.reason = wire::PairReason::kPeer;
  statement.arrived = 17;
  return statement;
}

Frame frame_of(const wire::PairStatement& statement) {
  auto* begin = reinterpret_cast<const uint8_t*>(&statement);
  return Frame{wire::FrameKind::kPair, {begin, begin + sizeof(statement)}};
}

TEST_F(FrameChannelTest, PairStatement_WithFieldsThatThisVersionDoesNotKnow_IsRejected) {
  using Change = void (*)(wire::PairStatement&);
  const Change changes[] = {
      [](wire::PairStatement& statement) { statement.serial_first = 2; },
      [](wire::PairStatement& statement) { statement.serial_first = statement.serial_last = 0; },
      [](wire::PairStatement& statement) { statement.pair = wire::kMaxQps; },
      [](wire::PairStatement& statement) { statement.asks = 2; },
      [](wire::PairStatement& statement) {
        statement.reason =
            static_cast<wire::PairReason>(static_cast<uint8_t>(wire::kLastPairReason) + 1);
      },
      [](wire::PairStatement& statement) { statement.reserved0 = 1; },
      [](wire::PairStatement& statement) { statement.reserved1[3] = 1; },
      [](wire::PairStatement& statement) { statement.address.reserved = 1; },
      [](wire::PairStatement& statement) { statement.address.needs_grh = 2; },
  };
  int number = 0;
  for (const Change change : changes) {
    wire::PairStatement statement = down_statement();
    change(statement);
    EXPECT_FALSE(frame_of(statement).pair_statement().has_value()) << number++;
  }
  Frame short_frame{wire::FrameKind::kPair, std::vector<uint8_t>(63)};
  EXPECT_FALSE(short_frame.pair_statement().has_value());
}

}  // namespace
}  // namespace gdr::transport

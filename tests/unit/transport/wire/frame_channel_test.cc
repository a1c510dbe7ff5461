#include "transport/wire/frame_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

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

TEST_F(FrameChannelTest, Receive_ForeignBytes_IsAnError) {
  feed("GET / HTTP/1.1\r\n\r\n", 18);
  EXPECT_FALSE(channel_.receive().has_value());
}

TEST_F(FrameChannelTest, Receive_OtherVersion_NamesBothVersions) {
  wire::FrameHeader header{wire::kMagic, 99, wire::FrameKind::kHello, 0, 0};
  feed(&header, sizeof(header));
  auto frame = channel_.receive();
  ASSERT_FALSE(frame.has_value());
  EXPECT_NE(frame.error().text.find("99"), std::string::npos);
}

TEST_F(FrameChannelTest, Receive_BodyLargerThanItsKind_IsAnError) {
  for (auto kind : {wire::FrameKind::kHello, wire::FrameKind::kFailed, wire::FrameKind::kBye}) {
    SetUp();
    wire::FrameHeader header{wire::kMagic, wire::kWireVersion, kind, 0, 0x7fffffff};
    feed(&header, sizeof(header));
    EXPECT_FALSE(channel_.receive().has_value());
  }
}

TEST_F(FrameChannelTest, Receive_PeerClosed_IsRemoteError) {
  raw_.reset();
  auto frame = channel_.receive();
  ASSERT_FALSE(frame.has_value());
  EXPECT_EQ(frame.error().code, Code::kRemote);
}

TEST_F(FrameChannelTest, EndPoint_InvalidCounts_AreRejected) {
  wire::EndPoint end{};
  end.rails = 1;
  end.qps = 1;
  auto frame_of = [&] {
    auto* begin = reinterpret_cast<const uint8_t*>(&end);
    return Frame{wire::FrameKind::kHello, {begin, begin + sizeof(end)}};
  };
  EXPECT_TRUE(frame_of().end_point().has_value());
  end.qps = wire::kMaxQps + 1;
  EXPECT_FALSE(frame_of().end_point().has_value());
  end.qps = 1;
  end.rails = wire::kMaxRails + 1;
  EXPECT_FALSE(frame_of().end_point().has_value());
  end.rails = 0;
  EXPECT_FALSE(frame_of().end_point().has_value());
}

TEST_F(FrameChannelTest, EndPoint_UnterminatedNames_AreTerminated) {
  wire::EndPoint end{};
  end.rails = end.qps = 1;
  std::memset(end.host, 'h', sizeof(end.host));
  std::memset(end.rail[0].hca, 'd', sizeof(end.rail[0].hca));
  auto* begin = reinterpret_cast<const uint8_t*>(&end);
  Frame frame{wire::FrameKind::kHello, {begin, begin + sizeof(end)}};
  auto parsed = frame.end_point();
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(std::strlen(parsed->host), sizeof(end.host) - 1);
  EXPECT_EQ(std::strlen(parsed->rail[0].hca), sizeof(end.rail[0].hca) - 1);
}

TEST_F(FrameChannelTest, EndPoint_ShortBody_IsRejected) {
  Frame frame{wire::FrameKind::kHello, std::vector<uint8_t>(10)};
  EXPECT_FALSE(frame.end_point().has_value());
}

}  // namespace
}  // namespace gdr::transport

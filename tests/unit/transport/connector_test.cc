#include "transport/connector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

TEST(Connector, ListenerAccepts_DataFlows) {
  HandshakeBed bed;
  auto listener = bed.make_listener().value();
  auto connector = bed.make_connector(handle_of(*listener)).value();
  Handshake both(*connector, *listener);
  ASSERT_TRUE(both.sender && both.receiver);
  ASSERT_TRUE(*both.sender != nullptr && *both.receiver != nullptr);
  const wire::EndPoint sender = end_of(**both.sender);
  EXPECT_EQ(bed.verbs.attributes(qp_number(**both.receiver)).dest_qp_num, sender.qp[0].number);
  EXPECT_TRUE(contains((*both.sender)->text(), "fake_b:1 lid 2"));
}

TEST(Connector, NobodyAnswersYet_ReturnsNothing) {
  HandshakeBed bed;
  RawReceiver raw;
  auto connector = bed.make_connector(raw.handle()).value();
  for (int i = 0; i < 100; ++i) {
    auto comm = connector->step();
    ASSERT_TRUE(comm);
    EXPECT_EQ(*comm, nullptr);
  }
}

TEST(Connector, HandleNamesNoPort_IsAnError) {
  HandshakeBed bed;
  EXPECT_FALSE(bed.make_connector(wire::Handle{}));
}

TEST(Connector, SenderCannotBeMade_IsAnError) {
  for (Call call : {Call::kQueryPort, Call::kCreateCq, Call::kModifyToInit, Call::kRegMr}) {
    HandshakeBed bed;
    RawReceiver raw;
    bed.verbs.fail_call(call, ENOMEM);
    auto connector = bed.make_connector(raw.handle());
    ASSERT_FALSE(connector);
    EXPECT_TRUE(contains(connector.error().text, "fake_a")) << connector.error().text;
  }
}

// A port that nobody listens on yet: when a large job starts, a listener's queue may be full.
TEST(Connector, ConnectionRefusedAtFirst_IsTriedAgain) {
  HandshakeBed bed;
  UniqueFd bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage address = loopback_address();
  socklen_t length = sizeof(sockaddr_in);
  ASSERT_EQ(bind(bound.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(getsockname(bound.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  wire::Handle handle{};
  write_address(address, &handle);
  auto connector = bed.make_connector(handle).value();
  ASSERT_TRUE(connector->step());
  ASSERT_EQ(listen(bound.get(), 8), 0);
  bool connected = wait_for([&] {
    auto comm = connector->step();
    EXPECT_TRUE(comm);
    pollfd waiting{bound.get(), POLLIN, 0};
    return !comm || poll(&waiting, 1, 0) == 1;
  });
  EXPECT_TRUE(connected);
}

struct ConnectorPeer : testing::Test {
  HandshakeBed bed;
  RawReceiver raw;
  std::unique_ptr<Connector> connector = bed.make_connector(raw.handle()).value();
  std::unique_ptr<ReceiveComm> receiver = bed.make_receiver().value();
  wire::EndPoint reply = end_of(*receiver);

  // Steps until the hello is sent, and reads it.
  void read_hello() {
    ASSERT_TRUE(connector->step());
    raw.accept();
    ASSERT_TRUE(wait_for([&] {
      auto comm = connector->step();
      pollfd readable{raw.channel.fd(), POLLIN, 0};
      return comm && poll(&readable, 1, 0) == 1;
    }));
    auto hello = next_frame(raw.channel);
    ASSERT_TRUE(hello);
    ASSERT_EQ(hello->kind, wire::FrameKind::kHello);
    wire::EndPoint sender = hello->end_point().value();
    EXPECT_EQ(sender.secret, kSecret);
    ASSERT_TRUE(receiver->connect(sender));
  }
  void send(const void* bytes, size_t size) {
    ASSERT_EQ(write(raw.channel.fd(), bytes, size), static_cast<ssize_t>(size));
  }
  Error error() {
    auto comm = drive([&] { return connector->step(); });
    EXPECT_FALSE(comm);
    if (comm) return Error{Code::kInternal, ""};
    EXPECT_TRUE(contains(comm.error().text, "handshake with 127.0.0.1")) << comm.error().text;
    return comm.error();
  }
};

TEST_F(ConnectorPeer, Reply_MakesTheComm) {
  read_hello();
  raw.channel.queue(reply, wire::FrameKind::kReply);
  ASSERT_TRUE(raw.channel.flush());
  auto comm = drive([&] { return connector->step(); });
  ASSERT_TRUE(comm && *comm != nullptr);
  EXPECT_EQ(next_frame(raw.channel)->kind, wire::FrameKind::kReady);
}

TEST_F(ConnectorPeer, PeerRefuses_IsInvalidUsageWithTheReason) {
  read_hello();
  raw.channel.queue_text(wire::FrameKind::kRefuse, "no more queue pairs here");
  ASSERT_TRUE(raw.channel.flush());
  Error found = error();
  EXPECT_EQ(found.code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(found.text, "no more queue pairs here"));
}

TEST_F(ConnectorPeer, OtherWireVersion_NamesBothVersions) {
  read_hello();
  wire::FrameHeader header{wire::kMagic, 99, wire::FrameKind::kReply, 0, 0};
  send(&header, sizeof(header));
  Error found = error();
  EXPECT_EQ(found.code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(found.text, "99")) << found.text;
}

TEST_F(ConnectorPeer, OtherProtocol_IsAnError) {
  read_hello();
  send("HTTP/1.1 200 OK\r\n\r\n", 19);
  EXPECT_EQ(error().code, Code::kInternal);
}

TEST_F(ConnectorPeer, UnexpectedFrame_IsAnError) {
  read_hello();
  raw.channel.queue(wire::FrameKind::kReady, nullptr, 0);
  ASSERT_TRUE(raw.channel.flush());
  EXPECT_TRUE(contains(error().text, "unexpected frame"));
}

TEST_F(ConnectorPeer, ReplyWithAnotherSecret_IsAnError) {
  read_hello();
  reply.secret[0] ^= 1;
  raw.channel.queue(reply, wire::FrameKind::kReply);
  ASSERT_TRUE(raw.channel.flush());
  EXPECT_TRUE(contains(error().text, "secret"));
}

TEST_F(ConnectorPeer, ReplyOfTheWrongSize_IsAnError) {
  read_hello();
  raw.channel.queue(wire::FrameKind::kReply, &reply, sizeof(reply) - 1);
  ASSERT_TRUE(raw.channel.flush());
  EXPECT_TRUE(contains(error().text, "wrong size"));
}

TEST_F(ConnectorPeer, ReplyInTwoParts_IsWaitedFor) {
  read_hello();
  wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind::kReply, 0,
                           sizeof(reply)};
  send(&header, sizeof(header));
  send(&reply, 100);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(connector->step().value(), nullptr);
  send(reinterpret_cast<char*>(&reply) + 100, sizeof(reply) - 100);
  auto comm = drive([&] { return connector->step(); });
  EXPECT_TRUE(comm && *comm != nullptr);
}

TEST_F(ConnectorPeer, ClosesAfterTheHello_IsARemoteError) {
  read_hello();
  raw.channel = FrameChannel();
  EXPECT_EQ(error().code, Code::kRemote);
}

TEST_F(ConnectorPeer, ClosesWithinTheReply_IsARemoteError) {
  read_hello();
  wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind::kReply, 0,
                           sizeof(reply)};
  send(&header, sizeof(header));
  send(&reply, 100);
  raw.channel = FrameChannel();
  EXPECT_EQ(error().code, Code::kRemote);
}

TEST_F(ConnectorPeer, ClosesBeforeTheHello_IsARemoteError) {
  ASSERT_TRUE(connector->step());
  raw.accept();
  raw.channel = FrameChannel();
  EXPECT_EQ(error().code, Code::kRemote);
}

// The receiver must learn the reason, since nothing failed on its own side.
TEST_F(ConnectorPeer, QueuePairCannotBeConnected_RefusesToThePeerWithTheReason) {
  for (Call call : {Call::kModifyToRtr, Call::kModifyToRts}) {
    raw = RawReceiver();
    connector = bed.make_connector(raw.handle()).value();
    receiver = bed.make_receiver().value();
    reply = end_of(*receiver);
    read_hello();
    raw.channel.queue(reply, wire::FrameKind::kReply);
    ASSERT_TRUE(raw.channel.flush());
    bed.verbs.fail_call(call, EINVAL);
    Error found = error();
    EXPECT_EQ(found.sys_errno, EINVAL);
    auto answer = next_frame(raw.channel);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->kind, wire::FrameKind::kRefuse);
    EXPECT_TRUE(contains(answer->text(), call == Call::kModifyToRtr ? "RTR" : "RTS"));
  }
}

TEST_F(ConnectorPeer, ReceiverDoesNotFit_RefusesToThePeer) {
  read_hello();
  reply.qps = 2;
  reply.qp[1] = reply.qp[0];
  raw.channel.queue(reply, wire::FrameKind::kReply);
  ASSERT_TRUE(raw.channel.flush());
  EXPECT_TRUE(contains(error().text, "number of QPs"));
  EXPECT_EQ(next_frame(raw.channel)->kind, wire::FrameKind::kRefuse);
}

}  // namespace
}  // namespace gdr::transport

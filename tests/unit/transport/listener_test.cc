#include "transport/listener.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;

struct ListenerBed {
  explicit ListenerBed(const TransportOptions& options = test_options(), bool roce = false)
      : bed(options, roce) {}

  HandshakeBed bed;
  std::unique_ptr<Listener> listener = bed.make_listener().value();
  wire::Handle handle = handle_of(*listener);
  std::unique_ptr<SendComm> sender = bed.make_sender().value();
  wire::EndPoint hello = sender->end_point(handle.secret);

  // A pending peer that has sent the hello.
  FrameChannel say_hello() {
    FrameChannel channel(connect_raw(handle));
    channel.queue(hello, wire::FrameKind::kHello);
    EXPECT_TRUE(channel.flush().value());
    return channel;
  }
  // Another sender, whose hello is the next.
  void renew_sender() {
    sender = bed.make_sender().value();
    hello = sender->end_point(handle.secret);
  }
  // The receiver's comm or error, once there is one.
  Result<std::unique_ptr<ReceiveComm>> accepted() {
    return drive([&] { return listener->accept(); });
  }
  Error error() {
    auto comm = accepted();
    EXPECT_FALSE(comm);
    return comm ? Error{Code::kInternal, ""} : comm.error();
  }
  // Accepts until the listener has closed that connection.
  bool is_dropped(const UniqueFd& fd) {
    return wait_for([&] {
      auto comm = listener->accept();
      EXPECT_TRUE(comm && *comm == nullptr);
      return is_closed(fd);
    });
  }
  // Accepts until the listener has answered, and returns its reply.
  wire::EndPoint reply_on(FrameChannel& channel) {
    EXPECT_TRUE(wait_for([&] {
      auto comm = listener->accept();
      pollfd readable{channel.fd(), POLLIN, 0};
      return comm && poll(&readable, 1, 0) == 1;
    }));
    auto frame = next_frame(channel);
    EXPECT_EQ(frame->kind, wire::FrameKind::kReply);
    return frame->end_point().value();
  }
  // The sender is ready. Returns the receiver's comm.
  std::unique_ptr<ReceiveComm> complete(FrameChannel& channel) {
    channel.queue(wire::FrameKind::kReady, "", 1);
    EXPECT_TRUE(channel.flush().value());
    auto comm = accepted();
    EXPECT_TRUE(comm && *comm != nullptr);
    return comm ? std::move(*comm) : nullptr;
  }
  // The listener still serves a sender that knows the secret.
  void expect_still_serving() {
    auto connector = bed.make_connector(handle).value();
    BothEnds both(*connector, *listener);
    ASSERT_TRUE(both.receiver) << both.receiver.error().text;
    ASSERT_TRUE(both.sender) << both.sender.error().text;
    EXPECT_NE(*both.receiver, nullptr);
  }
};

struct ListenerPeer : testing::Test, ListenerBed {};

TEST_F(ListenerPeer, Handle_NamesAddressVersionAndSecret) {
  EXPECT_EQ(handle.magic, wire::kMagic);
  EXPECT_EQ(handle.version, wire::kWireVersion);
  EXPECT_EQ(handle.connect_ticket, 0u);
  EXPECT_NE(handle.secret, wire::Secret{});
  EXPECT_NE(handle.secret, handle_of(*bed.make_listener().value()).secret);
  EXPECT_TRUE(contains(to_string(read_address(handle).value()), "127.0.0.1:"));
}

TEST_F(ListenerPeer, ConnectorWithAWrongSecret_IsARemoteErrorThere) {
  wire::Handle forged = handle;
  forged.secret[0] ^= 1;
  bed.options.connect_retries = 0;
  auto connector = bed.make_connector(forged).value();
  auto comm = drive([&] {
    (void)listener->accept();
    return connector->step();
  });
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Code::kRemote);
  expect_still_serving();
}

TEST_F(ListenerPeer, ImpossibleCountsInTheHello_AreRefused) {
  hello.qps = 0;
  FrameChannel channel = say_hello();
  UniqueFd fd(dup(channel.fd()));
  ASSERT_TRUE(wait_for([&] {
    EXPECT_TRUE(listener->accept());
    pollfd readable{fd.get(), POLLIN, 0};
    return poll(&readable, 1, 0) == 1;
  }));
  EXPECT_TRUE(
      contains(next_frame(channel)->text(), "a handshake that wire version 9 does not allow. Fix"));
  expect_still_serving();
}

TEST_F(ListenerPeer, SenderDroppedInAScan_ComesBackAndIsServed) {
  bed.verbs.fail_call(Call::kModifyToInit, ETIMEDOUT);  // the hello waits
  auto connector = bed.make_connector(handle).value();
  ASSERT_EQ(connector->step().value(), nullptr);
  std::vector<UniqueFd> scan;
  for (int i = 0; i < 200; ++i) scan.push_back(connect_raw(handle));
  ASSERT_EQ(listener->accept().value(), nullptr);
  // Meanwhile it finds that its connection has ended.
  const auto until = Clock::now() + std::chrono::milliseconds(300);
  while (Clock::now() < until) EXPECT_EQ(connector->step().value(), nullptr);
  bed.skip(bed.options.connect_retry_pause);
  BothEnds both(*connector, *listener);
  ASSERT_TRUE(both.receiver && both.sender);
  EXPECT_NE(*both.receiver, nullptr);
}

// Breaks a connection as the network does: without an orderly end.
void reset(FrameChannel& channel) {
  const linger at_once{1, 0};
  setsockopt(channel.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  channel = FrameChannel();
}

TEST_F(ListenerPeer, ReplyIsLost_TheSendersSecondHelloContinuesTheSameComm) {
  // How the listener sees the connection break. A proxy ends it in order.
  for (const char* seen : {"reset", "end", "not"}) {
    FrameChannel first = say_hello();
    const wire::EndPoint reply = reply_on(first);
    const fake_verbs::LiveObjects made = bed.verbs.live();
    FrameChannel half_open;
    if (*seen == 'r') reset(first);
    if (*seen == 'n') half_open = std::move(first);
    first = FrameChannel();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(listener->accept().value(), nullptr);
    FrameChannel second = say_hello();
    wire::EndPoint again = reply_on(second);
    EXPECT_EQ(again.seen_from, fingerprint_of(own_address(second.fd())));
    again.seen_from = reply.seen_from;
    EXPECT_EQ(std::memcmp(&reply, &again, sizeof(reply)), 0);
    EXPECT_EQ(bed.verbs.live(), made);
    const auto comm = complete(second);
    renew_sender();
  }
}

TEST(ListenerWithoutItsSender, ConnectionBreaksOrEnds_IsAnErrorAfterTenSeconds) {
  for (const bool resets : {true, false}) {
    ListenerBed peer;
    FrameChannel channel = peer.say_hello();
    peer.reply_on(channel);
    if (resets) reset(channel);
    channel = FrameChannel();
    for (int i = 0; i < 100; ++i) ASSERT_EQ(peer.listener->accept().value(), nullptr);
    peer.bed.skip(std::chrono::seconds(9));
    ASSERT_EQ(peer.listener->accept().value(), nullptr);
    peer.bed.skip(std::chrono::seconds(1));
    const Error found = peer.error();
    EXPECT_EQ(found.code, Code::kRemote);
    EXPECT_TRUE(
        contains_all(found.text, {std::string("handshake with ") + peer.hello.host,
                                  "broke or was closed, and the sender did not come back. ",
                                  "Likely cause: its process has ended", "Fix: look at its log"}))
        << found.text;
    peer.sender.reset();
    EXPECT_EQ(peer.bed.verbs.live().qps, 0);
    peer.expect_still_serving();
  }
}

// A connection that broke may still deliver what was sent on it.
TEST_F(ListenerPeer, HelloOfASenderThatIsConnected_IsNotAnsweredAgain) {
  FrameChannel channel = say_hello();
  reply_on(channel);
  const auto comm = complete(channel);
  const fake_verbs::LiveObjects connected = bed.verbs.live();
  FrameChannel late = say_hello();
  UniqueFd fd(dup(late.fd()));
  EXPECT_TRUE(is_dropped(fd));
  EXPECT_EQ(bed.verbs.live(), connected);
}

TEST_F(ListenerPeer, ProcessHasNoDescriptorsLeft_TheSenderThatIsThereIsStillConnected) {
  FrameChannel channel = say_hello();
  reply_on(channel);
  {
    NoMoreFiles none;
    EXPECT_EQ(listener->accept().value(), nullptr);
    bed.skip(std::chrono::seconds(20));
    auto comm = listener->accept();
    ASSERT_TRUE(comm) << comm.error().text;
  }
  EXPECT_NE(complete(channel), nullptr);
}

TEST_F(ListenerPeer, TwoSendersAtOnce_AreConnectedOneAfterTheOther) {
  FrameChannel first = say_hello();
  const uint64_t first_base = hello.sequence_base;
  auto kept = std::move(sender);
  renew_sender();
  FrameChannel second = say_hello();
  for (FrameChannel* channel : {&first, &second}) {
    reply_on(*channel);
    const auto comm = complete(*channel);
    EXPECT_EQ(comm->connection().peer().sequence_base == first_base, channel == &first);
  }
}

TEST_F(ListenerPeer, NobodyComesOrIsReadyForTheWatchdogsTime_IsLoggedWithTheCause) {
  RecordedLog log;
  const auto let_it_stall = [&] {
    ASSERT_EQ(listener->accept().value(), nullptr);
    bed.skip(std::chrono::seconds(60));
    ASSERT_EQ(listener->accept().value(), nullptr);
    bed.skip(std::chrono::seconds(1));
    ASSERT_EQ(listener->accept().value(), nullptr);
    ASSERT_EQ(log.warnings().size(), 1u);
  };
  let_it_stall();
  EXPECT_TRUE(contains_all(log.warnings()[0],
                           {"accepting on 127.0.0.1:", "no progress for 60 s; no sender has come",
                            "NCCL_SOCKET_IFNAME"}));
  FrameChannel channel = say_hello();
  reply_on(channel);
  log.clear();
  let_it_stall();
  EXPECT_TRUE(contains_all(log.warnings()[0], {hello.host, "has the reply and is not ready yet"}));
}

TEST_F(ListenerPeer, ReceiverCannotBeMade_RefusesToTheSenderWithTheReason) {
  for (Call call : {Call::kCreateCq, Call::kModifyToInit, Call::kModifyToRtr, Call::kModifyToRts,
                    Call::kRegMr}) {
    FrameChannel channel = say_hello();
    const bool connects = call == Call::kModifyToRtr || call == Call::kModifyToRts;
    bed.verbs.fail_call(call, ENOSPC, /*skip=*/connects ? 1 : 0);  // a flush can be connected later
    Error found = error();
    auto answer = next_frame(channel);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->kind, wire::FrameKind::kRefuse);
    EXPECT_TRUE(contains(answer->text(), found.text.substr(0, 40))) << answer->text();
  }
}

// The receiver has one rail, on which each rail of the sender gets its QPs.
TEST_F(ListenerPeer, SenderOfTwoRails_GetsAQueuePairForEachOfItsOwn) {
  hello.rails = 2;
  hello.qps = 2;
  hello.rail[1] = hello.rail[0];
  hello.rail[1].lid = 9;
  hello.qp[1].number = 0x999;
  hello.qp[1].rail = 1;
  FrameChannel channel = say_hello();
  const wire::EndPoint reply = reply_on(channel);
  EXPECT_EQ(reply.rails, 1);
  ASSERT_EQ(reply.qps, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(reply.qp[i].rail, 0) << i;
    const ibv_qp_attr attributes = bed.verbs.attributes(reply.qp[i].number);
    EXPECT_EQ(attributes.dest_qp_num, hello.qp[i].number) << i;
    EXPECT_EQ(attributes.ah_attr.dlid, hello.rail[i].lid) << i;
  }
}

TEST_F(ListenerPeer, OtherLinkLayer_IsRefused) {
  hello.rail[0].ethernet = 1;
  FrameChannel channel = say_hello();
  EXPECT_EQ(error().code, Code::kInvalidUsage);
  EXPECT_TRUE(contains_all(next_frame(channel)->text(),
                           {"link layers", "fake_a:1", "fake_b:1", "NCCL_IB_HCA"}));
}

TEST_F(ListenerPeer, SenderIsNotReadyAfterTheReply_IsAnErrorWithTheReasonAndTheNextIsServed) {
  const struct {
    void (*act)(ListenerPeer&, FrameChannel&);
    Code code;
    std::string text;
  } cases[] = {{[](auto&, FrameChannel& channel) {
                  channel.queue_text(wire::FrameKind::kRefuse, "moving a QP to RTR failed");
                  ASSERT_TRUE(channel.flush().value());
                },
                Code::kRemote, "moving a QP to RTR failed"},
               {[](auto& test, FrameChannel& channel) {
                  channel.queue(test.hello, wire::FrameKind::kHello);
                  ASSERT_TRUE(channel.flush().value());
                },
                Code::kInternal, "unexpected frame"}};
  for (const auto& [act, code, text] : cases) {
    FrameChannel channel = say_hello();
    reply_on(channel);
    act(*this, channel);
    const Error found = error();
    EXPECT_EQ(found.code, code) << text;
    EXPECT_TRUE(contains(found.text, text)) << found.text;
    expect_still_serving();
    renew_sender();
  }
}

}  // namespace
}  // namespace gdr::transport

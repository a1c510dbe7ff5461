#include "transport/connector.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

using fake_verbs::Call;
using namespace std::chrono_literals;

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
    bed.skip(bed.options.connect_retry_pause);
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
  wire::EndPoint hello{};

  // Another receiver and a connector to it, with the bed's options.
  void start_anew() {
    raw = RawReceiver();
    connector = bed.make_connector(raw.handle()).value();
    receiver = bed.make_receiver().value();
    reply = end_of(*receiver);
  }
  void step_for_a_while() {
    for (int i = 0; i < 100; ++i) {
      auto comm = connector->step();
      ASSERT_TRUE(comm && *comm == nullptr);
    }
  }
  // Whether another connection waits at the receiver's port.
  bool is_somebody_there() {
    pollfd waiting{raw.socket.fd.get(), POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  }
  // Breaks the connection, and steps until the connector has seen that.
  void lose_connection(bool reset) {
    if (reset) {
      const linger at_once{1, 0};
      setsockopt(raw.channel.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    raw.channel = FrameChannel();
    step_for_a_while();
  }
  // Steps until the hello is sent, and reads it.
  void read_hello() {
    ASSERT_TRUE(connector->step());
    raw.accept();
    ASSERT_TRUE(wait_for([&] {
      auto comm = connector->step();
      pollfd readable{raw.channel.fd(), POLLIN, 0};
      return comm && poll(&readable, 1, 0) == 1;
    }));
    auto frame = next_frame(raw.channel);
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->kind, wire::FrameKind::kHello);
    hello = frame->end_point().value();
    EXPECT_EQ(hello.secret, kSecret);
    const bool is_first = receiver->connection().peer().qps == 0;
    if (is_first) {
      ASSERT_TRUE(receiver->connect(hello));
    }
  }
  void answer() {
    raw.channel.queue(reply, wire::FrameKind::kReply);
    ASSERT_TRUE(raw.channel.flush());
  }
  // Steps until the sender's comm is made.
  void expect_connected() {
    auto comm = drive([&] { return connector->step(); });
    ASSERT_TRUE(comm && *comm != nullptr);
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

TEST_F(ConnectorPeer, AnswerIsNoReplyToTheHello_IsAnErrorWithTheReason) {
  struct {
    void (*answer)(ConnectorPeer&);
    Code code;
    const char* text;
  } const cases[] = {
      {[](auto& test) { test.raw.channel.queue_text(wire::FrameKind::kRefuse, "no more QPs"); },
       Code::kRemote, "no more QPs"},
      {[](auto& test) {
         wire::FrameHeader header{wire::kMagic, 99, wire::FrameKind::kReply, 0, 0};
         test.send(&header, sizeof(header));
       },
       Code::kInvalidUsage, "99"},
      {[](auto& test) { test.raw.channel.queue(wire::FrameKind::kReady, nullptr, 0); },
       Code::kInternal, "unexpected frame"},
      {[](auto& test) {
         test.reply.secret[0] ^= 1;
         test.raw.channel.queue(test.reply, wire::FrameKind::kReply);
       },
       Code::kInternal, "secret"},
      {[](auto& test) {
         test.raw.channel.queue(wire::FrameKind::kReply, &test.reply, sizeof(test.reply) - 1);
       },
       Code::kInternal, "a handshake that wire version 9 does not allow"}};
  for (const auto& one : cases) {
    start_anew();
    read_hello();
    one.answer(*this);
    ASSERT_TRUE(raw.channel.flush());
    const Error found = error();
    EXPECT_EQ(found.code, one.code) << one.text;
    EXPECT_TRUE(contains(found.text, one.text)) << found.text;
  }
}

// As by a sidecar. After the reply, NCCL may not have called yet, or the queue pairs are being
// connected.
TEST_F(ConnectorPeer, LosesTheConnectionBeforeItIsReady_SendsTheSameHelloAgain) {
  enum class Lost { kBeforeTheReply, kWithinIt, kAfterIt, kWhileConnecting };
  using enum Lost;
  for (const bool reset : {false, true}) {
    for (Lost lost : {kBeforeTheReply, kWithinIt, kAfterIt, kWhileConnecting}) {
      start_anew();
      read_hello();
      const wire::EndPoint first = hello;
      const auto started = bed.verbs.live();
      if (lost == kWithinIt) {
        wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind::kReply, 0,
                                 sizeof(reply)};
        send(&header, sizeof(header));
        send(&reply, 100);
      }
      if (lost == kWhileConnecting) bed.verbs.fail_call(Call::kModifyToRtr, ETIMEDOUT);
      if (lost >= kAfterIt) answer();
      ASSERT_TRUE(wait_for([&] {
        if (lost == kWhileConnecting) step_for_a_while();
        return bed.verbs.failures_left(Call::kModifyToRtr) == 0;
      }));
      lose_connection(reset);
      bed.skip(std::chrono::seconds(1));
      read_hello();
      EXPECT_EQ(std::memcmp(&first, &hello, sizeof(hello)), 0);
      EXPECT_EQ(bed.verbs.live(), started) << "its queue pairs stay";
      answer();
      expect_connected();
      EXPECT_EQ(next_frame(raw.channel)->kind, wire::FrameKind::kReady);
    }
  }
}

// The n-th pause is n times as long as the first. What has the port may be another process.
TEST_F(ConnectorPeer, LosesEveryConnection_WarnsAndGivesUpAfterGrowingPauses) {
  using std::chrono::milliseconds;
  RecordedLog log;
  bed.options.connect_retries = 3;
  start_anew();
  read_hello();
  for (int retry = 1; retry <= 3; ++retry) {
    lose_connection(false);
    EXPECT_EQ(log.warnings("another process has the receiver's port").size(), retry / 3) << retry;
    bed.skip(bed.options.connect_retry_pause * retry - milliseconds(1));
    step_for_a_while();
    EXPECT_FALSE(is_somebody_there()) << retry;
    bed.skip(milliseconds(1));
    read_hello();
  }
  raw.channel = FrameChannel();
  Error found = error();
  EXPECT_EQ(found.code, Code::kRemote);
  EXPECT_TRUE(contains_all(found.text, {"gave up after 3 retries; likely cause: another process",
                                        " (handshake with ", "Fix: start all ranks"}));
}

// Another process would listen on another port, with another secret.
TEST_F(ConnectorPeer, ReceiverNoLongerListens_FailsWithoutMoreRetries) {
  for (const bool replies : {false, true}) {
    start_anew();
    read_hello();
    if (replies) answer();
    raw.socket.fd.reset();
    lose_connection(false);
    bed.skip(bed.options.connect_retry_pause);
    Error found = error();
    EXPECT_EQ(found.code, Code::kRemote);
    EXPECT_EQ(found.sys_errno, ECONNREFUSED);
    EXPECT_TRUE(contains(found.text, "the receiver no longer listens")) << found.text;
  }
}

// Within a second, one for the ports of a host: the process there that listened on them has ended.
TEST_F(ConnectorPeer, NobodyListensFromTheStart_OneWarningLongBeforeItGivesUp) {
  RecordedLog log;
  for (int i = 0; i < 2; ++i) {
    start_anew();
    raw.socket.fd.reset();
    connector = bed.make_connector(raw.handle()).value();
    for (int retry = 0; retry < 3; ++retry) {
      step_for_a_while();
      bed.skip(bed.options.connect_retry_pause * 3);
    }
    step_for_a_while();
  }
  const auto warnings = log.warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(contains_all(warnings[0], {"Connection refused", "connecting again",
                                         "the receiver no longer listens", "Fix: look for"}));
}

TEST_F(ConnectorPeer, NoReplyForTheWatchdogsTime_IsLoggedWithTheCause) {
  RecordedLog log;
  read_hello();
  for (int i = 0; i < 2; ++i) {
    bed.skip(std::chrono::seconds(61));
    step_for_a_while();
  }
  ASSERT_EQ(log.warnings().size(), 1u);
  EXPECT_TRUE(contains_all(log.warnings()[0],
                           {"watchdog: connecting to 127.0.0.1:",
                            "the hello is sent, no reply has come", "has not called accept"}));
}

// The receiver must learn the reason, since nothing failed on its own side.
TEST_F(ConnectorPeer, QueuePairCannotBeConnected_RefusesToThePeerWithTheReason) {
  for (Call call : {Call::kModifyToRtr, Call::kModifyToRts}) {
    start_anew();
    read_hello();
    answer();
    bed.verbs.fail_call(call, EINVAL);
    Error found = error();
    EXPECT_EQ(found.sys_errno, EINVAL);
    EXPECT_TRUE(contains_all(found.text, {"fake_a:1 lid 1", "fake_b:1 lid 2"}));
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
  answer();
  EXPECT_TRUE(contains_all(error().text, {"number of QPs, 2", "this end's, 1"}));
  EXPECT_EQ(next_frame(raw.channel)->kind, wire::FrameKind::kRefuse);
}

// Both ends, on a clock that the test moves. How often and after which pauses it is tried is in
// state_changes_test.cc.
TEST(LateResolution, AChangeOfStateTimesOut_ConnectsAfterThePause) {
  HandshakeBed bed;
  ManualClock clock;
  bed.options.connection.now = clock.as_now();
  const auto listener = bed.make_listener().value();
  const struct {
    Call call;
    int before;  // QPs that change so before those that time out
    int qps;     // that time out together
  } cases[] = {
      {Call::kModifyToInit, 0, 1},  // of the sender, whose hello waits
      {Call::kModifyToInit, 1, 1},  // of the receiver, whose receives wait
      {Call::kModifyToRtr, 0, 2},   // of the receiver, and that of its flush
      {Call::kModifyToRtr, 2, 1},   // of the sender
  };
  for (const auto& [call, before, qps] : cases) {
    bed.verbs.fail_call(call, ETIMEDOUT, before, qps);
    const auto connector = bed.make_connector(handle_of(*listener)).value();
    Result<std::unique_ptr<SendComm>> sender = nullptr;
    Result<std::unique_ptr<ReceiveComm>> receiver = nullptr;
    const auto step = [&] {
      if (sender && *sender == nullptr) sender = connector->step();
      if (receiver && *receiver == nullptr) receiver = listener->accept();
      return sender && *sender != nullptr && receiver && *receiver != nullptr;
    };
    const auto has_failed = [&, change = call] {
      return !step() && bed.verbs.failures_left(change) == 0;
    };
    ASSERT_TRUE(wait_for(has_failed)) << before;
    clock.now += 99ms;
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(step());
    clock.now += 1ms;
    ASSERT_TRUE(wait_for(step)) << before;
    EXPECT_EQ(bed.verbs.posted_receives(qp_number(**receiver)),
              SendComm::kRequests + RailSet::kReceiveBatch);
  }
}

}  // namespace
}  // namespace gdr::transport

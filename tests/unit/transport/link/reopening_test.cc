// What happens to a connection whose kept socket ends.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/socket_cut.h"
#include "transport/watch/watcher.h"

namespace gdr::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const wire::EndProof kProofs[] = {wire::proof_of(false, {1, 2, 3}, 4711),
                                  wire::proof_of(true, {1, 2, 3}, 4711)};  // by `sender`

// One end of a connection, in a process of its own. `proxy` holds the other end of its socket.
struct LinkEnd {
  explicit LinkEnd(bool sends) : opens(sends) {
    watcher = Watcher::start(seconds(0), true, loopback_address()).value();
  }
  void make(uint16_t port, bool direct) {
    std::array<UniqueFd, 2> sockets = tcp_pair();
    proxy = std::move(sockets[1]);
    PeerLinkOptions options{.peer = {"b", 4711}};
    options.reopen = {.own = kProofs[opens], .peers = kProofs[!opens]};
    options.reopen.opens = opens;
    options.reopen.direct = direct;
    if (port != 0) options.reopen.to = loopback_address();
    if (port != 0) set_port(&options.reopen.to, port);
    link = std::make_shared<PeerLink>(FrameChannel(std::move(sockets[0])), name(),
                                      opens ? "sender" : "receiver", std::move(options));
  }
  void connect(uint16_t port, bool direct) {
    make(port, direct);
    watcher->add({link});
  }
  std::string name() const { return opens ? "a <-> b" : "b <-> a"; }
  void remove() { watcher->remove(link.get()); }
  // reset: as a firewall does that rejects what it does not know.
  void close_proxy(bool reset) {
    const linger at_once{1, 0};
    if (reset) setsockopt(proxy.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    proxy.reset();
  }

  const bool opens;
  std::unique_ptr<Watcher> watcher;
  std::shared_ptr<PeerLink> link;
  UniqueFd proxy;
};

// Two ends whose sockets a proxy holds.
struct ReopeningTest : testing::Test {
  void connect(bool direct = true) {
    sender.connect(receiver.watcher->reopen_port(), direct);
    receiver.connect(direct ? sender.watcher->reopen_port() : 0, direct);
  }
  size_t reopened(const LinkEnd& end) const {
    return log.lines(end.name() + ": the handshake socket is open again").size();
  }
  void expect_reopened(size_t times = 1) {
    EXPECT_TRUE(wait_for([&] { return reopened(sender) >= times && reopened(receiver) >= times; }));
    sender.link->fail_link(Error{Code::kSystem, "the words of the sender"}, true);
    EXPECT_TRUE(wait_for([&] { return receiver.link->failed(); }));
    EXPECT_TRUE(contains(receiver.link->failure().text, "words of the sender"));
  }
  // Within the two seconds that are promised, and some for a slow machine.
  static std::string failure_of(LinkEnd& end) {
    EXPECT_TRUE(wait_for([&] {
      if (end.link->peer_left()) end.link->fail_gone();  // as a data path that waits
      return end.link->failed();
    }));
    return end.link->failure().text;
  }

  RecordedLog log;
  LinkEnd sender{true}, receiver{false};
};

struct Closing : ReopeningTest, testing::WithParamInterface<std::tuple<bool, bool, bool>> {};

TEST_P(Closing, SomethingBetweenClosesTheSocket_ItIsOpenedAgain) {
  const auto [reset, at_sender, at_receiver] = GetParam();
  connect();
  if (at_sender) sender.close_proxy(reset);
  if (at_receiver) receiver.close_proxy(reset);
  expect_reopened();
  EXPECT_EQ(log.warnings().size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Ways, Closing,
                         testing::Values(std::tuple(false, true, true),
                                         std::tuple(true, true, true),
                                         std::tuple(true, true, false),
                                         std::tuple(true, false, true)));

TEST_F(ReopeningTest, PathIsSilent_TheSocketIsOpenedAgain) {
  connect(/*direct=*/false);
  cut(sender.link->fd());
  expect_reopened();
}

TEST_F(ReopeningTest, FailureIsSentOverALostSocket_ItArrivesOverTheNewOne) {
  connect();
  receiver.link->fail_link(Error{Code::kSystem, "the words of the receiver"}, true);
  sender.close_proxy(true);
  EXPECT_TRUE(contains(failure_of(sender), "words of the receiver"));
}

// A process that is slow to listen again, as behind a firewall that is restarted.
TEST_F(ReopeningTest, SocketIsOpenedAgainBeforeAPeerThatWasTakenForGoneFailsIt_LinkGoesOn) {
  const uint16_t closed = ReopenPort(listen_tcp(loopback_address()).value()).port();
  receiver.make(closed, true);
  PeerLink& link = *receiver.link;
  auto now = Clock::now();
  link.on_socket_end(Error{Code::kRemote, "it ended"}, now);
  ASSERT_TRUE(wait_for([&] {
    (void)link.on_tick(now += milliseconds(50));
    return link.peer_gone();
  }));
  std::array<UniqueFd, 2> sockets = tcp_pair();
  EXPECT_TRUE(link.on_reopened(FrameChannel(std::move(sockets[0]))));
  EXPECT_FALSE(link.peer_gone());
  (void)link.on_tick(now + seconds(1));
  EXPECT_FALSE(link.failed()) << link.failure().text;
}

TEST_F(ReopeningTest, ProcessIsGone_TheOtherEndFailsWithTheLikelyCause) {
  for (LinkEnd* gone : {&sender, &receiver}) {
    connect();
    LinkEnd& left = gone == &sender ? receiver : sender;
    gone->watcher.reset();
    gone->link.reset();
    const auto before = Clock::now();
    sender.close_proxy(false);
    receiver.close_proxy(false);
    const std::string text = failure_of(left);
    EXPECT_LT(Clock::now() - before, seconds(10));
    EXPECT_TRUE(contains_all(text, {"the handshake socket was closed, and a connection to the "
                                    "peer's process (127.0.0.1:",
                                    "is refused. Likely cause: that process ended. Fix: "}));
    left.remove();
    gone->watcher = Watcher::start(seconds(0), true, loopback_address()).value();
  }
}

// Such as one that reported the failure itself and then ended.
TEST_F(ReopeningTest, ProcessOfAFailedLinkIsGone_IsAskedNoMore) {
  sender.make(receiver.watcher->reopen_port(), /*direct=*/true);
  receiver.watcher.reset();
  sender.link->fail_link(Error{Code::kRemote, "failed"}, true);
  auto now = Clock::now();
  sender.link->on_socket_end(Error{Code::kRemote, "closed"}, now);
  for (int i = 0; i < 100; ++i) (void)sender.link->on_tick(now += milliseconds(100));
  EXPECT_EQ(sender.link->deadline(), Clock::time_point::max());
}

// What refuses may be the proxy, which is being restarted.
TEST_F(ReopeningTest, SomethingBetweenRefuses_LinkGoesOn) {
  connect(/*direct=*/false);
  receiver.watcher.reset();
  sender.close_proxy(false);
  ASSERT_TRUE(wait_for([&] { return sender.link->deaf(); })) << "after 3 s";
  EXPECT_FALSE(sender.link->failed());
  EXPECT_TRUE(sender.link->probe_wanted());
  EXPECT_TRUE(wait_for([&] { return log.warnings("the handshake socket is lost").size() == 1; }));
  const auto next_tick = Clock::now() + milliseconds(1100);
  EXPECT_TRUE(wait_for([&] { return Clock::now() > next_tick; }));
  EXPECT_EQ(log.lines("the handshake socket is lost").size(), 1u) << "of this link, for good";
}

// As one that has closed the connection after a failure, or that has the port of one that ended.
TEST_F(ReopeningTest, PeerDoesNotHaveTheConnection_LinkFailsIfThePeerHadIt) {
  connect();
  receiver.remove();
  sender.close_proxy(false);
  ASSERT_TRUE(wait_for([&] { return sender.link->deaf(); }));
  EXPECT_FALSE(sender.link->failed()) << "the receiver may take it later";
  sender.link->count_posted();
  sender.link->count_completed();
  EXPECT_TRUE(contains(failure_of(sender), "the peer does not have the connection any more"));
}

TEST_F(ReopeningTest, SenderDoesNotHaveTheConnection_ReceiverFails) {
  connect();
  sender.remove();
  receiver.close_proxy(false);
  EXPECT_TRUE(contains(failure_of(receiver), "the peer does not have the connection any more"));
}

// A port scan, and one that guesses.
TEST_F(ReopeningTest, UnauthenticatedPeers_ChangeNothing) {
  connect();
  sockaddr_storage to = loopback_address();
  set_port(&to, receiver.watcher->reopen_port());
  const auto open = [&] {
    UniqueFd fd = start_connect_tcp(to, to).value();
    EXPECT_TRUE(wait_for([&] { return finish_connect_tcp(fd.get()).value(); }));
    return FrameChannel(std::move(fd));
  };
  wire::EndProof wrong = kProofs[true];
  wrong.back() ^= 1;
  struct Case {
    wire::FrameKind kind;
    const wire::EndProof& proof;
    size_t bytes;
    bool answered;
  };
  constexpr size_t kBytes = sizeof(wire::EndProof);
  for (const Case& one :
       {Case{wire::FrameKind::kReopen, wrong, kBytes, true},
        Case{wire::FrameKind::kReopen, kProofs[false], kBytes, true},  // which it shows itself
        Case{wire::FrameKind::kReopen, kProofs[true], kBytes - 1, false},
        Case{wire::FrameKind::kFailed, kProofs[true], kBytes, false}}) {
    FrameChannel channel = open();
    channel.queue(one.kind, &one.proof, one.bytes);
    ASSERT_TRUE(channel.flush().value());
    Result<std::optional<Frame>> answer = std::nullopt;
    EXPECT_TRUE(wait_for([&] {
      answer = channel.receive();
      return !answer || answer->has_value();
    }));
    EXPECT_EQ(answer && (*answer)->kind == wire::FrameKind::kUnknown, one.answered);
  }
  EXPECT_EQ(reopened(receiver), 0u);
  EXPECT_FALSE(receiver.link->failed());
  sender.close_proxy(false);
  expect_reopened();
}

// As one that has taken the port of a receiver that ended.
TEST_F(ReopeningTest, AnotherProcessAnswers_ItsSocketIsNotTakenAndTheReceiversIs) {
  ReopenPort port(listen_tcp(loopback_address()).value());
  sender.connect(port.port(), true);
  sender.close_proxy(false);
  for (bool knows : {false, true}) {
    std::vector<ReopenPort::Request> requests;
    ASSERT_TRUE(wait_for([&] {
      requests = port.step(Clock::now());
      return !requests.empty();
    }));
    EXPECT_EQ(requests[0].proof, kProofs[true]);
    const wire::EndProof& answer = knows ? kProofs[false] : requests[0].proof;
    requests[0].channel.queue(wire::FrameKind::kKnown, &answer, sizeof(answer));
    ASSERT_TRUE(requests[0].channel.flush().value());
    EXPECT_TRUE(wait_for([&] { return reopened(sender) == 1 || !requests[0].channel.receive(); }));
    EXPECT_EQ(reopened(sender), knows ? 1u : 0u);
  }
  EXPECT_FALSE(sender.link->failed());
}

TEST(EndProof, EachByteOfWhatBothKnow_IsInOneOfThem) {
  const auto differs = [](const wire::Secret& secret, uint64_t base) {
    const bool senders = wire::proof_of(true, secret, base) != kProofs[true];
    const bool receivers = wire::proof_of(false, secret, base) != kProofs[false];
    return senders != receivers;
  };
  for (size_t i = 0; i < sizeof(wire::Secret); ++i) {
    wire::Secret secret{1, 2, 3};
    secret[i] ^= 0x80;
    EXPECT_TRUE(differs(secret, 4711)) << i;
  }
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(differs({1, 2, 3}, 4711 ^ uint64_t{1} << bit)) << bit;
  }
}

TEST(ReopenPort, PeersThatSendNothing_AreDroppedInTimeAndOthersWaitForThem) {
  ReopenPort port(listen_tcp(loopback_address()).value());
  sockaddr_storage to = loopback_address();
  set_port(&to, port.port());
  auto now = Clock::now();
  std::vector<FrameChannel> silent;
  const auto is_dropped = [&](FrameChannel& peer) {
    EXPECT_TRUE(port.step(now).empty());
    return !peer.receive();
  };
  for (int i = 0; i < 129; ++i) silent.emplace_back(start_connect_tcp(to, to).value());
  EXPECT_FALSE(is_dropped(silent[0]));
  EXPECT_EQ(port.deadline(), now + milliseconds(10));
  now += seconds(1);
  EXPECT_TRUE(wait_for([&] { return is_dropped(silent[0]) && is_dropped(silent[127]); }));
  EXPECT_FALSE(is_dropped(silent[128])) << "it has waited in the socket's queue";
  now += seconds(1);
  EXPECT_TRUE(wait_for([&] { return is_dropped(silent[128]); }));
  EXPECT_EQ(port.deadline(), Clock::time_point::max());
}

}  // namespace
}  // namespace gdr::transport

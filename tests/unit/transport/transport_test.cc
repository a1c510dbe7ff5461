#include "transport/transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

struct TransportTest : testing::Test {
  HandshakeBed bed;
  std::unique_ptr<Transport> transport = make();

  std::unique_ptr<Transport> make() {
    bed.options.connection.now = bed.now;
    return Transport::create({bed.sender_device, bed.receiver_device}, bed.options).value();
  }
  // Lets time pass until the watcher has freed what NCCL does not call, so that so many QPs are
  // left.
  void let_watcher_free(int qps) {
    bed.skip(std::chrono::minutes(5));
    EXPECT_TRUE(wait_for([&] {
      bed.skip(std::chrono::seconds(10));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return bed.verbs.live().qps == qps;
    }));
  }
  // Connects device 0 to the listener's device.
  Result<std::unique_ptr<SendComm>> connect(wire::Handle* handle, Listener& listener) {
    Result<std::unique_ptr<ReceiveComm>> receiver = nullptr;
    return drive([&] {
      if (receiver && *receiver == nullptr) receiver = listener.accept();
      return transport->connect(RailChoice{{0}, {}}, handle);
    });
  }
};

// Device 1 listens.
struct ConnectingTest : TransportTest {
  std::unique_ptr<Listener> listener = transport->listen(RailChoice{{1}, {}}).value();
  wire::Handle handle = handle_of(*listener);

  // Device 0 begins to connect to it.
  void begin() { ASSERT_EQ(transport->connect(RailChoice{{0}, {}}, &handle).value(), nullptr); }
};

// At once: NCCL's bootstrap would wait for minutes. Those of NCCL's own transports begin with the
// family of a socket address.
TEST_F(TransportTest, HandleOfAnotherTransport_IsRefusedAndMakesNothing) {
  for (uint32_t family : {0, AF_INET, AF_INET6}) {
    wire::Handle handle{};
    handle.magic = family;
    auto comm = transport->connect(RailChoice{{0}, {}}, &handle);
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code, Code::kInvalidUsage);
    EXPECT_TRUE(
        contains_all(comm.error().text, {"handle is not of this plugin: ", "NCCL_NET=GDR"}));
    EXPECT_EQ(bed.verbs.live().qps, 0);
  }
}

// What the connect of NCCL's own transports checks first (ncclNetSocketHandle in
// src/transport/net_socket.cc, ncclIbHandle in src/transport/net_ib/connect.cc): the address family
// and, of IB, the state, which is that of a first call. For Socket the same bytes are a number of
// sockets; one below zero would be a connection. Its own state follows.
TEST_F(TransportTest, Listen_HandleIsOneThatNcclsTransportsRefuse) {
  constexpr size_t kIbState = 40, kSocketState = 48;
  constexpr uint8_t kFirstCall[5] = {};
  for (int i = 0; i < 64; ++i) {
    const wire::Handle handle = handle_of(*transport->listen(RailChoice{{1}, {}}).value());
    const auto* bytes = reinterpret_cast<const uint8_t*>(&handle);
    // Every version reads the magic number, which is not an address family, and the version here.
    EXPECT_EQ(std::memcmp(bytes, "GDRG\x09\0", 6), 0);
    EXPECT_EQ(std::memcmp(bytes + kIbState, kFirstCall, 4), 0);
    EXPECT_EQ(std::memcmp(bytes + kSocketState, kFirstCall, 5), 0);
  }
}

TEST_F(TransportTest, HandleOfAnotherVersion_NamesBothVersions) {
  wire::Handle handle{};
  handle.magic = wire::kMagic;
  handle.version = 3;
  auto comm = transport->connect(RailChoice{{0}, {}}, &handle);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(comm.error().text, "wire version 3, this side 9. Fix: install"));
}

TEST_F(TransportTest, Connect_HandleWithFieldsThatThisVersionDoesNotKnow_IsRefused) {
  for (int field = 0; field < 6; ++field) {
    wire::Handle handle = handle_of(*transport->listen(RailChoice{{1}, {}}).value());
    if (field == 0) handle.reserved0 = 1;
    if (field == 1) handle.reserved1[55] = 1;
    if (field == 2) handle.ipv6 = 2;
    if (field == 3) handle.active_rails = 1;
    if (field == 4) handle.standby_rails = 2;
    if (field == 5) handle.active_rails = wire::kMaxRails + 1;
    auto comm = transport->connect(RailChoice{{0}, {}}, &handle);
    ASSERT_FALSE(comm) << field;
    EXPECT_EQ(comm.error().code, Code::kInternal) << field;
  }
}

// Both ends are in one process here, at one port.
TEST_F(ConnectingTest, KeptSocketIsClosed_ItIsOpenedAgain) {
  std::unique_ptr<ReceiveComm> receiver;
  auto accept = [&] {
    if (receiver == nullptr) receiver = listener->accept().value();
  };
  const auto sender = drive([&] {
    accept();
    return transport->connect(RailChoice{{0}, {}}, &handle);
  });
  ASSERT_TRUE(sender);
  ASSERT_TRUE(wait_for([&] {
    accept();
    return receiver != nullptr;
  }));
  RecordedLog log;
  PeerLink* links[] = {&(*sender)->connection().link(), &receiver->connection().link()};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(links[i]->reopen_target().direct);
    ASSERT_EQ(shutdown(links[i]->fd(), SHUT_RDWR), 0);
    EXPECT_TRUE(wait_for(
        [&] { return log.lines("the handshake socket is open again").size() == 2 * (i + 1); }));
  }
  EXPECT_FALSE(links[0]->failed() || links[1]->failed());
}

// A reset may come behind the sender's kReady.
TEST_F(ConnectingTest, SocketIsResetBeforeTheListenerReturnsTheConnection_ItCanBeOpenedAgain) {
  std::unique_ptr<ReceiveComm> receiver;
  const auto sender = drive([&] {
    if (receiver == nullptr) receiver = listener->accept().value();
    return transport->connect(RailChoice{{0}, {}}, &handle);
  });
  ASSERT_TRUE(sender);
  ASSERT_EQ(receiver, nullptr);
  // The system call itself: ThreadSanitizer takes connect() for the making of a descriptor, which
  // would race with the watcher's recv().
  const sockaddr reset{AF_UNSPEC, {}};
  ASSERT_EQ(syscall(SYS_connect, (*sender)->connection().link().fd(), &reset, sizeof(reset)), 0);
  ASSERT_TRUE(wait_for([&] {
    receiver = listener->accept().value();
    return receiver != nullptr;
  }));
  const ReopenTarget& target = receiver->connection().link().reopen_target();
  EXPECT_EQ(to_string(target.to), to_string((*sender)->connection().link().reopen_target().to));
}

TEST_F(ConnectingTest, Connect_UsesTheTicketInTheHandleUntilItIsDone) {
  begin();
  const uint64_t ticket = handle.connect_ticket;
  EXPECT_NE(ticket, 0u);
  const fake_verbs::LiveObjects started = bed.verbs.live();
  begin();
  EXPECT_EQ(handle.connect_ticket, ticket);
  EXPECT_EQ(bed.verbs.live(), started) << "no second connection is begun";
  auto comm = connect(&handle, *listener);
  ASSERT_TRUE(comm && *comm != nullptr);
  EXPECT_EQ(handle.connect_ticket, 0u);
}

// NCCL copies a handle for each channel.
TEST_F(TransportTest, TwoCopiesOfAHandle_AreTwoConnections) {
  auto listener = transport->listen(RailChoice{{1}, {}}).value();
  wire::Handle first = handle_of(*listener);
  wire::Handle second = first;
  ASSERT_EQ(transport->connect(RailChoice{{0}, {}}, &first).value(), nullptr);
  ASSERT_EQ(transport->connect(RailChoice{{0}, {}}, &second).value(), nullptr);
  EXPECT_NE(first.connect_ticket, second.connect_ticket);
  EXPECT_EQ(bed.verbs.live().qps, 2);
}

// The handle comes from a peer, which may have written anything there.
TEST_F(ConnectingTest, TicketOfAPeer_BeginsAConnection) {
  handle.connect_ticket = 0x1234;
  begin();
  EXPECT_NE(handle.connect_ticket, 0x1234u);
}

TEST_F(TransportTest, FailedConnection_IsForgotten) {
  RawReceiver raw;
  wire::Handle handle = raw.handle();
  ASSERT_EQ(transport->connect(RailChoice{{0}, {}}, &handle).value(), nullptr);
  raw.accept();
  raw.channel.queue_text(wire::FrameKind::kRefuse, "no");
  ASSERT_TRUE(raw.channel.flush());
  auto comm = drive([&] { return transport->connect(RailChoice{{0}, {}}, &handle); });
  ASSERT_FALSE(comm);
  EXPECT_EQ(handle.connect_ticket, 0u);
  EXPECT_EQ(bed.verbs.live().qps, 0);
}

// NCCL does not close a listener that it still accepted on when it aborted.
TEST_F(ConnectingTest, ListenerThatNcclAbandons_FreesTheHalfMadeComm) {
  auto sender = bed.make_sender().value();
  FrameChannel channel(connect_raw(handle));
  channel.queue(sender->end_point(handle.secret), wire::FrameKind::kHello);
  ASSERT_TRUE(channel.flush().value());
  ASSERT_TRUE(wait_for([&] {
    EXPECT_TRUE(listener->accept());
    return bed.verbs.live().qps > 1;
  }));
  UniqueFd fd(dup(channel.fd()));
  let_watcher_free(1);  // the sender's
  EXPECT_TRUE(is_closed(fd));
  auto comm = listener->accept();
  ASSERT_FALSE(comm);
  EXPECT_TRUE(contains(comm.error().text, "accept() was not called for minutes"))
      << comm.error().text;
}

// The sender is connected, and its HCA fails before the receiver has been accepted, which never
// happens, as NCCL aborts.
TEST_F(TransportTest, ListenerIsClosedAfterASenderHasLostARail_SenderFailsAndNothingIsLeft) {
  auto listener = transport->listen(RailChoice{{1}, {0}}).value();
  wire::Handle handle = handle_of(*listener);
  std::unique_ptr<SendComm> sender = drive([&] {
                                       EXPECT_EQ(listener->accept().value(), nullptr);
                                       return transport->connect(RailChoice{{0}, {1}}, &handle);
                                     }).value();
  ASSERT_NE(sender, nullptr);
  ASSERT_GT(bed.verbs.live().qps, 2) << "of both ends, with a standby pair";
  EXPECT_TRUE(sender->connection().recovery()->on_lost_hca(0)) << "over the standby rail";
  listener.reset();
  EXPECT_TRUE(wait_for([&] { return !sender->progress(); }));
  sender.reset();
  EXPECT_EQ(bed.verbs.live().qps, 0);
}

TEST_F(ConnectingTest, DestroyedWhileConnecting_LeavesNothing) {
  begin();
  listener.reset();
  transport.reset();
  EXPECT_EQ(bed.verbs.live().qps, 0);
}

}  // namespace
}  // namespace gdr::transport

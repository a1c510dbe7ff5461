#include "transport/pending_peers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

struct PendingPeersTest : testing::Test {
  HandshakeBed bed;
  ListeningSocket socket = listen_tcp(loopback_address()).value();
  PendingPeers peers{kSecret, bed.handshakes};
  std::unique_ptr<SendComm> sender = bed.make_sender().value();
  wire::EndPoint hello = end_of(*sender);

  UniqueFd connect() {
    wire::Handle handle{};
    write_address(socket.address, &handle);
    return connect_raw(handle);
  }
  std::vector<UniqueFd> connect_many(int count) {
    std::vector<UniqueFd> many;
    for (int i = 0; i < count; ++i) many.push_back(connect());
    return many;
  }
  // The bytes of a hello: header and body.
  std::vector<uint8_t> frame() const {
    const wire::FrameHeader header{wire::kMagic, wire::kWireVersion, wire::FrameKind::kHello, 0,
                                   sizeof(hello)};
    std::vector<uint8_t> bytes(sizeof(header) + sizeof(hello));
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &hello, sizeof(hello));
    return bytes;
  }
  static void send(const UniqueFd& fd, const uint8_t* bytes, size_t count) {
    ASSERT_EQ(write(fd.get(), bytes, count), static_cast<ssize_t>(count));
  }
  size_t advance() {
    auto hellos = peers.advance(socket.fd.get());
    EXPECT_TRUE(hellos) << hellos.error().text;
    return hellos ? hellos->size() : 0;
  }
  bool is_dropped(const UniqueFd& fd) {
    return wait_for([&] {
      EXPECT_EQ(advance(), 0u);
      return is_closed(fd);
    });
  }
  // Whether the peer is still there after many calls.
  bool is_kept(const UniqueFd& fd) {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(advance(), 0u);
    return !is_closed(fd);
  }
};

TEST_F(PendingPeersTest, Hello_ComesWithItsChannel) {
  UniqueFd fd = connect();
  send(fd, frame().data(), frame().size());
  std::vector<Hello> hellos;
  ASSERT_TRUE(wait_for([&] {
    hellos = peers.advance(socket.fd.get()).value();
    return !hellos.empty();
  }));
  EXPECT_EQ(std::memcmp(&hellos[0].sender, &hello, sizeof(hello)), 0);
  EXPECT_FALSE(is_closed(fd));
  EXPECT_TRUE(peers.empty());
}

TEST_F(PendingPeersTest, MorePeersThanTheLimit_TheOldestThatSentNothingValidIsDroppedFirst) {
  std::vector<UniqueFd> silent = connect_many(2);
  UniqueFd half = connect();  // has shown the secret, and not the rest
  send(half, frame().data(), 40);
  for (int i = 0; i < 7; ++i) silent.push_back(connect());
  EXPECT_TRUE(is_dropped(silent[0]));
  EXPECT_TRUE(is_kept(silent[1])) << "8 that are unknown, and the one that has the secret";
  std::vector<UniqueFd> more = connect_many(200);
  EXPECT_TRUE(is_dropped(silent[8]));
  EXPECT_FALSE(is_closed(half));
  EXPECT_FALSE(is_closed(more[199]));
  send(half, frame().data() + 40, frame().size() - 40);
  EXPECT_TRUE(wait_for([&] { return advance() == 1; }));
}

TEST_F(PendingPeersTest, HelloBeforeMoreThanMayBePending_IsReadBeforeAnyIsDropped) {
  UniqueFd fd = connect();
  send(fd, frame().data(), frame().size());
  std::vector<UniqueFd> silent = connect_many(50);
  EXPECT_TRUE(wait_for([&] { return advance() == 1; }));
}

TEST_F(PendingPeersTest, FirstWrongByteOfTheHeader_DropsThePeerAtOnce) {
  for (size_t wrong = 0; wrong < sizeof(wire::FrameHeader); ++wrong) {
    std::vector<uint8_t> bytes = frame();
    bytes[wrong] ^= 0x40;
    UniqueFd fd = connect();
    send(fd, bytes.data(), wrong);
    EXPECT_TRUE(is_kept(fd)) << wrong;
    send(fd, bytes.data() + wrong, 1);
    EXPECT_TRUE(is_dropped(fd)) << wrong;
  }
}

// Otherwise a peer could find out the secret byte by byte.
TEST_F(PendingPeersTest, WrongSecret_IsDroppedOnlyWhenItIsComplete) {
  constexpr size_t kBefore = sizeof(wire::FrameHeader);
  for (size_t wrong = 0; wrong < sizeof(wire::Secret); ++wrong) {
    std::vector<uint8_t> bytes = frame();
    bytes[kBefore + wrong] ^= 1;
    UniqueFd fd = connect();
    send(fd, bytes.data(), kBefore + 15);
    EXPECT_TRUE(is_kept(fd)) << wrong;
    send(fd, bytes.data() + kBefore + 15, 1);
    EXPECT_TRUE(is_dropped(fd)) << wrong;
  }
}

TEST_F(PendingPeersTest, NoHelloInTime_IsDropped) {
  UniqueFd silent = connect();
  UniqueFd half = connect();
  send(half, frame().data(), 40);
  EXPECT_TRUE(is_kept(silent));
  bed.skip(std::chrono::milliseconds(19'999));
  EXPECT_TRUE(is_kept(silent));
  EXPECT_FALSE(is_closed(half));
  bed.skip(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_dropped(silent));
  EXPECT_TRUE(is_dropped(half));
}

TEST_F(PendingPeersTest, ProcessHasNoDescriptorsLeft_WaitsForSomeBeforeItFails) {
  UniqueFd fd = connect();
  send(fd, frame().data(), frame().size());
  {
    NoMoreFiles none;
    EXPECT_EQ(advance(), 0u);
    bed.skip(std::chrono::seconds(19));
    EXPECT_EQ(advance(), 0u);
  }
  EXPECT_TRUE(wait_for([&] { return advance() == 1; })) << "it waited in the socket's queue";
  UniqueFd another = connect();
  NoMoreFiles none;
  EXPECT_EQ(advance(), 0u);
  bed.skip(std::chrono::seconds(20));
  auto failed = peers.advance(socket.fd.get());
  ASSERT_FALSE(failed);
  EXPECT_TRUE(contains(failed.error().text, "ulimit -n")) << failed.error().text;
}

}  // namespace
}  // namespace gdr::transport

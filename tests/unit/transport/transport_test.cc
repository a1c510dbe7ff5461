#include "transport/transport.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

struct TransportTest : testing::Test {
  HandshakeBed bed;
  std::unique_ptr<Transport> transport = make();

  std::unique_ptr<Transport> make() {
    return Transport::create({bed.sender_device, bed.receiver_device}, bed.options).value();
  }
  // Connects device 0 to the listener's device.
  Result<std::unique_ptr<SendComm>> connect(wire::Handle* handle, Listener& listener) {
    Result<std::unique_ptr<ReceiveComm>> receiver = nullptr;
    return drive([&] {
      if (receiver && *receiver == nullptr) receiver = listener.accept();
      return transport->connect(0, handle);
    });
  }
};

TEST_F(TransportTest, DeviceOutOfRange_IsInvalidArgument) {
  wire::Handle handle{};
  handle.magic = wire::kMagic;
  handle.version = wire::kWireVersion;
  for (int device : {-1, 2, 1000}) {
    auto listener = transport->listen(device);
    ASSERT_FALSE(listener);
    EXPECT_EQ(listener.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(contains(listener.error().text, std::to_string(device)));
    EXPECT_FALSE(transport->connect(device, &handle));
  }
}

TEST_F(TransportTest, HandleOfAnotherPlugin_IsInvalidUsage) {
  wire::Handle handle{};
  auto comm = transport->connect(0, &handle);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(comm.error().text, "NCCL_NET=GDR"));
}

TEST_F(TransportTest, HandleOfAnotherVersion_NamesBothVersions) {
  wire::Handle handle{};
  handle.magic = wire::kMagic;
  handle.version = 3;
  auto comm = transport->connect(0, &handle);
  ASSERT_FALSE(comm);
  EXPECT_EQ(comm.error().code, Code::kInvalidUsage);
  EXPECT_TRUE(contains(comm.error().text, "wire version 3, this side 4. Fix: install"));
}

// Version 3 reads the magic number and the version of a handle at these places, too.
TEST_F(TransportTest, Listen_HandleBeginsAsInEveryVersion) {
  const wire::Handle handle = handle_of(*transport->listen(1).value());
  uint8_t bytes[6];
  std::memcpy(bytes, &handle, sizeof(bytes));
  EXPECT_EQ(std::vector<uint8_t>(bytes, bytes + 6),
            (std::vector<uint8_t>{'G', 'D', 'R', 'G', 4, 0}));
}

TEST_F(TransportTest, Connect_HandleWithFieldsThatThisVersionDoesNotKnow_IsRefused) {
  const wire::Handle good = handle_of(*transport->listen(1).value());
  for (int field = 0; field < 3; ++field) {
    wire::Handle handle = good;
    if (field == 0) handle.reserved0[1] = 1;
    if (field == 1) handle.reserved1[39] = 1;
    if (field == 2) handle.gid_count = wire::kHandleGids + 1;
    auto comm = transport->connect(0, &handle);
    ASSERT_FALSE(comm) << field;
    EXPECT_EQ(comm.error().code, Code::kInternal) << field;
  }
}

TEST_F(TransportTest, Connect_UsesTheTicketInTheHandleUntilItIsDone) {
  auto listener = transport->listen(1).value();
  wire::Handle handle = handle_of(*listener);
  ASSERT_EQ(transport->connect(0, &handle).value(), nullptr);
  const uint64_t ticket = handle.connect_ticket;
  EXPECT_NE(ticket, 0u);
  const fake_verbs::LiveObjects started = bed.verbs.live();
  ASSERT_EQ(transport->connect(0, &handle).value(), nullptr);
  EXPECT_EQ(handle.connect_ticket, ticket);
  EXPECT_EQ(bed.verbs.live(), started) << "no second connection is begun";
  auto comm = connect(&handle, *listener);
  ASSERT_TRUE(comm && *comm != nullptr);
  EXPECT_EQ(handle.connect_ticket, 0u);
}

// NCCL copies a handle for each channel.
TEST_F(TransportTest, TwoCopiesOfAHandle_AreTwoConnections) {
  auto listener = transport->listen(1).value();
  wire::Handle first = handle_of(*listener);
  wire::Handle second = first;
  ASSERT_EQ(transport->connect(0, &first).value(), nullptr);
  ASSERT_EQ(transport->connect(0, &second).value(), nullptr);
  EXPECT_NE(first.connect_ticket, second.connect_ticket);
  EXPECT_EQ(bed.verbs.live().qps, 2);
}

// The handle comes from a peer, which may have written anything there.
TEST_F(TransportTest, TicketOfAPeer_BeginsAConnection) {
  auto listener = transport->listen(1).value();
  wire::Handle handle = handle_of(*listener);
  handle.connect_ticket = 0x1234;
  ASSERT_EQ(transport->connect(0, &handle).value(), nullptr);
  EXPECT_NE(handle.connect_ticket, 0x1234u);
}

TEST_F(TransportTest, FailedConnection_IsForgotten) {
  RawReceiver raw;
  wire::Handle handle = raw.handle();
  ASSERT_EQ(transport->connect(0, &handle).value(), nullptr);
  raw.accept();
  raw.channel = FrameChannel();
  auto comm = drive([&] { return transport->connect(0, &handle); });
  ASSERT_FALSE(comm);
  EXPECT_EQ(handle.connect_ticket, 0u);
  EXPECT_EQ(bed.verbs.live().qps, 0);
}

TEST_F(TransportTest, DestroyedWhileConnecting_LeavesNothing) {
  auto listener = transport->listen(1).value();
  wire::Handle handle = handle_of(*listener);
  ASSERT_EQ(transport->connect(0, &handle).value(), nullptr);
  listener.reset();
  transport.reset();
  EXPECT_EQ(bed.verbs.live().qps, 0);
}

}  // namespace
}  // namespace gdr::transport

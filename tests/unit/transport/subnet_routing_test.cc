#include "transport/subnet_routing.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "tests/unit/transport/handshake_bed.h"

namespace gdr::transport {
namespace {

wire::Gid gid(const char* text) {
  wire::Gid gid{};
  inet_pton(AF_INET6, text, gid.data());
  return gid;
}

TEST(SubnetRouting, Ipv4Gids_AreComparedByThePrefix) {
  struct {
    const char* a;
    const char* b;
    int longest;  // prefix by which they are in one subnet
  } const cases[] = {{"::ffff:10.0.1.1", "::ffff:10.0.1.254", 24},
                     {"::ffff:10.0.1.1", "::ffff:10.0.0.1", 23},
                     {"::ffff:10.0.1.1", "::ffff:10.0.1.1", 32},
                     {"::ffff:10.0.1.1", "::ffff:138.0.1.1", 0},
                     {"::ffff:10.0.1.1", "::ffff:10.128.1.1", 8}};
  for (const auto& one : cases) {
    for (int bits = 1; bits <= 32; ++bits) {
      EXPECT_EQ(is_same_subnet(gid(one.a), gid(one.b), bits), bits <= one.longest)
          << one.a << " " << one.b << "/" << bits;
    }
  }
}

TEST(SubnetRouting, Ipv6Gids_AreComparedByTheirSubnetPrefix) {
  EXPECT_TRUE(is_same_subnet(gid("fd00:0:0:1::1"), gid("fd00:0:0:1:ffff::2"), 32));
  EXPECT_FALSE(is_same_subnet(gid("fd00:0:0:1::1"), gid("fd00:0:0:2::1"), 1));
}

TEST(SubnetRouting, OtherFamilyOrNoGid_IsNoSubnet) {
  EXPECT_FALSE(is_same_subnet(gid("::ffff:10.0.1.1"), gid("::1"), 1));
  EXPECT_FALSE(is_same_subnet(gid("::"), gid("::"), 1));
}

// Device 0 to 2 are in the subnets 10.0.0, 10.0.1 and 10.0.2; device 3 is InfiniBand.
struct SubnetDevices : testing::Test {
  fake_verbs::FakeVerbs verbs;
  TransportOptions options = test_options();
  std::unique_ptr<Watcher> watcher = Watcher::start(std::chrono::seconds(0)).value();
  std::vector<Device> devices;
  Result<std::unique_ptr<ReceiveComm>> receiver = nullptr;

  void SetUp() override {
    options.subnet_aware_routing = true;
    for (uint8_t i = 0; i < 3; ++i) add(roce(std::string(1, static_cast<char>('a' + i)), i, 1));
    add(fake_verbs::HcaConfig::infiniband("ib", 9));
  }
  void add(const fake_verbs::HcaConfig& config) {
    auto hca = HcaContext::open(verbs.api(), verbs.add_hca(config)).value();
    devices.push_back({hca, 1, query_port_state(hca->api(), hca->context(), 1).value(), -1});
  }
  // Its GIDs are of 10.0.<subnet>.<host>.
  static fake_verbs::HcaConfig roce(const std::string& name, uint8_t subnet, uint8_t host) {
    fake_verbs::HcaConfig config = fake_verbs::HcaConfig::roce(name, host);
    for (fake_verbs::Gid& entry : config.ports[0].gids) entry.raw[14] = subnet;
    return config;
  }
  // A transport over an HCA in each of these subnets.
  std::unique_ptr<Transport> make(const std::vector<uint8_t>& subnets) {
    devices.clear();
    for (uint8_t subnet : subnets) {
      const auto number = static_cast<uint8_t>(20 + verbs.live().contexts);
      add(roce("hca" + std::to_string(number), subnet, number));
    }
    return Transport::create(devices, options).value();
  }
  // Connects rails of a transport to the first device of another one.
  std::unique_ptr<SendComm> connect(Transport& senders, const RailChoice& rails,
                                    Transport& receivers) {
    auto listener = receivers.listen(RailChoice{{0}, {}}).value();
    wire::Handle handle = handle_of(*listener);
    auto sender = drive([&] {
      if (receiver && *receiver == nullptr) receiver = listener->accept();
      return senders.connect(rails, &handle);
    });
    EXPECT_TRUE(sender && *sender != nullptr) << sender.error().text;
    return std::move(*sender);
  }
  size_t choose(size_t given, std::vector<wire::Gid> peer) const {
    const EndRails rails = choose_rails(devices, {{given}, {}}, peer, options);
    const auto is_chosen = [&](const Device& device) {
      return device.hca == rails.active.front().hca;
    };
    return std::ranges::find_if(devices, is_chosen) - devices.begin();
  }
};

TEST_F(SubnetDevices, GidsOfThePeer_DecideWhichDeviceIsChosen) {
  const struct {
    size_t given;
    std::vector<wire::Gid> peer;
    size_t chosen;
    int prefix_bits = 24;
    bool enabled = true;
  } cases[] = {
      {0, {gid("::ffff:10.0.2.7")}, 2},
      {2, {gid("::ffff:10.0.1.7")}, 1},
      {0, {gid("::ffff:10.9.9.9"), gid("::ffff:10.0.1.7")}, 1},
      {1, {gid("::ffff:10.0.0.7"), gid("::ffff:10.0.1.7")}, 1},  // the given one suits
      {2, {gid("::ffff:10.0.0.7")}, 2, 16},
      {1, {gid("::ffff:192.168.0.1")}, 1},  // none suits
      {1, {}, 1},
      {3, {}, 3},  // InfiniBand
      {0, {gid("::ffff:10.0.2.7")}, 0, 24, false},
  };
  for (const auto& one : cases) {
    options.subnet_prefix_bits = one.prefix_bits;
    options.subnet_aware_routing = one.enabled;
    EXPECT_EQ(choose(one.given, one.peer), one.chosen) << &one - cases;
  }
}

TEST_F(SubnetDevices, PortIsDown_IsNotChosen) {
  verbs.port("c", 1).active = false;
  EXPECT_EQ(choose(0, {gid("::ffff:10.0.2.7")}), 0u);
}

// Both ends over a transport: the sender's, or else the receiver's device follows the other's.
TEST_F(SubnetDevices, EndsInOtherSubnets_MeetInOne) {
  struct {
    std::vector<uint8_t> senders;    // the subnet of each device
    std::vector<uint8_t> receivers;  // the first of each is the one that NCCL gives
    uint8_t meet;
  } const cases[] = {{{0, 1}, {1}, 1}, {{2}, {1, 2}, 2}, {{1, 2}, {1, 2}, 1}, {{0, 2}, {2, 0}, 2}};
  for (const auto& one : cases) {
    receiver = nullptr;
    auto senders = make(one.senders);
    auto receivers = make(one.receivers);
    auto sender = connect(*senders, RailChoice{{0}, {}}, *receivers);
    ASSERT_NE(sender, nullptr);
    EXPECT_EQ(sender->connection().rails()[0].address().gid[14], one.meet);
    EXPECT_EQ(sender->connection().peer().rail[0].gid[14], one.meet);
    receiver = nullptr;
  }
}

// The sender's standby rail is in the subnet of the receiver's second device, its active one in
// that of the third.
TEST_F(SubnetDevices, SenderHasAStandbyRail_ReceiverFollowsTheActiveOne) {
  auto senders = make({0, 1});
  auto receivers = make({2, 1, 0});
  auto sender = connect(*senders, RailChoice{{0}, {1}}, *receivers);
  ASSERT_NE(sender, nullptr);
  const Connection& connection = sender->connection();
  ASSERT_EQ(connection.rails().pair_count(), 2u);
  EXPECT_EQ(connection.rails()[0].address().gid[14], 0);
  EXPECT_EQ(connection.peer().rail[connection.peer().qp[0].rail].gid[14], 0);
  receiver = nullptr;
}

}  // namespace
}  // namespace gdr::transport

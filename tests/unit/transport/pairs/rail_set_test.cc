#include "transport/pairs/rail_set.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/rails_pair.h"

namespace gdr::transport {
namespace {

// Four HCAs on one fabric; a rail set of two of them.
struct RailSetTest : testing::Test {
  fake_verbs::FakeVerbs verbs;
  ConnectionOptions options;

  Device device(const char* name, uint16_t lid) {
    auto hca =
        HcaContext::open(verbs.api(), verbs.add_hca(fake_verbs::HcaConfig::infiniband(name, lid)))
            .value();
    return Device{hca, 1, query_port_state(hca->api(), hca->context(), 1).value(), -1};
  }
  RailSet make(const Device& first, const Device& second) const {
    RailSet rails;
    const RailSpec spec{1, QueueDepths{16, 16, 0}, 0};
    EXPECT_TRUE(rails.add(first, spec, options));
    EXPECT_TRUE(rails.add(second, spec, options));
    rails.arrange({{0, false}, {1, false}});
    for (const RailEnd& rail : rails) {
      for (const QueuePair& pair : rail.qps()) {
        StateChanges changes;
        changes.add(to_init(rail.device(), pair.qp.get(), options));
        EXPECT_TRUE(changes.step(options).value());
      }
    }
    return rails;
  }
  RailSet make_local() { return make(device("fake_a", 1), device("fake_c", 3)); }
  RailSet make_remote() { return make(device("fake_b", 2), device("fake_d", 4)); }
  static wire::EndPoint described(const RailSet& rails) {
    wire::EndPoint end{};
    rails.describe(&end);
    return end;
  }
};

TEST_F(RailSetTest, CheckPair_SecondRailDoesNotFit_NamesItsTwoPorts) {
  const RailSet rails = make_local();
  const wire::EndPoint fits = described(make_remote());
  EXPECT_TRUE(rails.check_peer(fits));
  EXPECT_TRUE(rails.check_pair(1, fits));

  wire::EndPoint other_layer = fits;
  other_layer.rail[1].ethernet = 1;
  EXPECT_TRUE(rails.check_pair(0, other_layer));
  const Status refused = rails.check_pair(1, other_layer);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains_all(refused.error().text, {"fake_c:1", "fake_d:1"}));
}

// A rail of the peer without queue pairs of this connection is not reached, so it need not fit.
TEST_F(RailSetTest, CheckPair_RailWithoutQueuePairs_IsNotCompared) {
  RailSet here;
  ASSERT_TRUE(here.add(device("fake_a", 1), RailSpec{1, QueueDepths{16, 16, 0}, 0}, options));
  here.arrange({{0, false}});
  wire::EndPoint peer = described(make_remote());
  peer.qps = 1;
  peer.rail[1].ethernet = 1;
  EXPECT_TRUE(here.check_pair(0, peer));
  peer.qp[0].rail = 1;
  EXPECT_FALSE(here.check_pair(0, peer));
}

TEST(TwoRails, Text_NamesEachRailWithItsFirstQueuePair) {
  RailsPair pair(2);
  auto qp = [](const auto& comm, int index) {
    char text[16];
    std::snprintf(text, sizeof(text), " qp 0x%x", qp_number(comm, index));
    return std::string(text);
  };
  const Connection& connection = pair.sender->connection();
  const std::string host = connection.peer().host;
  EXPECT_EQ(connection.text(), host + " fake_s0:1 lid 10" + qp(*pair.sender, 0) +
                                   " + fake_s1:1 lid 12" + qp(*pair.sender, 1) + " <-> " + host +
                                   " fake_r0:1 lid 11" + qp(*pair.receiver, 0) +
                                   " + fake_r1:1 lid 13" + qp(*pair.receiver, 1));
}

// Which recover nothing.
struct TwoRailPair : RailsPair {
  TwoRailPair() : RailsPair(2, 0, without_failover()) {}
};

TEST(TwoRails, Messages_AlternateAndUseTheKeysOfTheirRail) {
  TwoRailPair pair;
  Buffer from = pair.sender_buffer(1000);
  Buffer to = pair.receiver_buffer(1000);
  ASSERT_NE(from.memory->keys[0].lkey, from.memory->keys[1].lkey);
  for (int i = 0; i < 6; ++i) {
    std::memset(from.data(), 'a' + i, 1000);
    Request* receive = pair.irecv(to);
    Request* send = pair.isend(from);
    ASSERT_TRUE(receive != nullptr && send != nullptr) << i;
    ASSERT_TRUE(finish(receive).done && finish(send).done) << i;
    EXPECT_EQ(std::string(to.data(), 1000), std::string(1000, static_cast<char>('a' + i)));
  }
  const auto posted = pair.posted_by(*pair.sender);
  ASSERT_EQ(posted.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const auto rail = static_cast<size_t>(i) % 2;
    EXPECT_EQ(posted[i].qp_num, qp_number(*pair.sender, i % 2)) << i;
    EXPECT_EQ(posted[i].lkey, from.memory->keys[rail].lkey) << i;
    EXPECT_EQ(posted[i].rkey, to.memory->keys[rail].rkey) << i;
  }
}

// Each queue pair must get its own receives back.
TEST(TwoRails, MoreMessagesThanReceivesWerePosted_AllArrive) {
  TwoRailPair pair;
  pair.exchange(std::vector<size_t>(2 * kReceiveDepth + 2 * RailSet::kReceiveBatch, 1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.verbs.posted_receives(qp_number(*pair.receiver, i)), kReceiveDepth) << i;
  }
}

}  // namespace
}  // namespace gdr::transport

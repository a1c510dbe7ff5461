#include "transport/data/rail_set.h"

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
  RailSet make(const Device& first, const Device& second, int qps) const {
    RailSet rails;
    const RailSpec spec{qps, QueueDepths{16, 16, 0}, 0};
    EXPECT_TRUE(rails.add(first, spec, options));
    EXPECT_TRUE(rails.add(second, spec, options));
    for (const RailEnd& rail : rails) {
      for (const QueuePair& pair : rail.qps()) {
        StateChanges changes;
        changes.add(to_init(rail.device(), pair.qp.get(), options));
        EXPECT_TRUE(changes.step(options).value());
      }
    }
    return rails;
  }
  RailSet make_local(int qps) { return make(device("fake_a", 1), device("fake_c", 3), qps); }
  RailSet make_remote(int qps) { return make(device("fake_b", 2), device("fake_d", 4), qps); }
  static wire::EndPoint described(const RailSet& rails) {
    wire::EndPoint end{};
    rails.describe(&end);
    return end;
  }
};

TEST_F(RailSetTest, TwoRails_QueuePairsAlternateBetweenThem) {
  const RailSet rails = make_local(3);
  ASSERT_EQ(rails.size(), 2u);
  ASSERT_EQ(rails.pair_count(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(rails.pair(i).rail, i % 2) << i;
    EXPECT_EQ(rails.pair(i).qp.get(), rails[i % 2].qps()[i / 2].qp.get()) << i;
    EXPECT_EQ(rails.pair(i).qp->context, rails[i % 2].device().hca->context()) << i;
  }
  EXPECT_EQ(&rails.clear_to_send_pair(), &rails.pair(0));
}

TEST_F(RailSetTest, Describe_NamesBothPortsAndAllQueuePairsInOrder) {
  const RailSet rails = make_local(2);
  const wire::EndPoint end = described(rails);
  EXPECT_EQ(end.rails, 2);
  EXPECT_EQ(end.qps, 4);
  EXPECT_EQ(to_string(end.rail[0]), "fake_a:1 lid 1");
  EXPECT_EQ(to_string(end.rail[1]), "fake_c:1 lid 3");
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(end.qp[i].number, rails.pair(i).qp->qp_num) << i;
}

TEST_F(RailSetTest, CheckPair_SecondRailDoesNotFit_NamesItsTwoPorts) {
  const RailSet rails = make_local(1);
  const wire::EndPoint fits = described(make_remote(1));
  EXPECT_TRUE(rails.check_peer(fits));
  EXPECT_TRUE(rails.check_pair(1, fits));

  wire::EndPoint other_layer = fits;
  other_layer.rail[1].ethernet = 1;
  EXPECT_TRUE(rails.check_pair(0, other_layer));
  const Status refused = rails.check_pair(1, other_layer);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains_all(refused.error().text, {"fake_c:1", "fake_d:1"}));
}

// Three queue pairs on one rail here, over two rails there.
TEST_F(RailSetTest, PeerWithMoreRails_EachQueuePairKnowsTheRailOfItsCounterpart) {
  RailSet here;
  ASSERT_TRUE(here.add(device("fake_a", 1), RailSpec{3, QueueDepths{16, 16, 0}, 0}, options));
  RailSet there;
  ASSERT_TRUE(there.add(device("fake_b", 2), RailSpec{2, QueueDepths{16, 16, 0}, 0}, options));
  ASSERT_TRUE(there.add(device("fake_d", 4), RailSpec{1, QueueDepths{16, 16, 0}, 0}, options));
  const wire::EndPoint peer = described(there);
  ASSERT_TRUE(here.check_peer(peer));
  here.set_peer_rails(peer);
  ASSERT_TRUE(there.check_peer(described(here)));
  there.set_peer_rails(described(here));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(here.pair(i).peer_rail, i % 2) << i;
    EXPECT_EQ(there.pair(i).rail, i % 2) << i;
    EXPECT_EQ(there.pair(i).peer_rail, 0u) << i;
  }
}

// A rail of the peer without queue pairs of this connection is not reached, so it need not fit.
TEST_F(RailSetTest, CheckPair_RailWithoutQueuePairs_IsNotCompared) {
  RailSet here;
  ASSERT_TRUE(here.add(device("fake_a", 1), RailSpec{1, QueueDepths{16, 16, 0}, 0}, options));
  wire::EndPoint peer = described(make_remote(1));
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

// Which recover nothing, and so take the direct path.
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
  EXPECT_EQ(pair.receiver->connection().recovery(), nullptr);
  pair.exchange(std::vector<size_t>(2 * kReceiveDepth + 2 * RailSet::kReceiveBatch, 1));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.verbs.posted_receives(qp_number(*pair.receiver, i)), kReceiveDepth) << i;
  }
}

}  // namespace
}  // namespace gdr::transport

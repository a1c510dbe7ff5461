// Connections of two rails. Connectors and listeners make connections of one so far; the data path
// below them is written for several.
#include "transport/data/rail_set.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/transport/comm_pair.h"
#include "transport/data/flush.h"
#include "transport/data/rail_tables.h"

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

TEST_F(RailSetTest, NextPair_TakesEveryQueuePairInTurn) {
  RailSet rails = make_local(2);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(&rails.next_pair(), &rails.pair(i % 4)) << i;
}

TEST_F(RailSetTest, PostReceives_GoToTheQueuePairOfThatIndex) {
  RailSet rails = make_local(1);
  EXPECT_EQ(rails.post_receives(1, 5, 1), 5);
  EXPECT_EQ(verbs.posted_receives(rails.pair(0).qp->qp_num), 0);
  EXPECT_EQ(verbs.posted_receives(rails.pair(1).qp->qp_num), 5);
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
  EXPECT_TRUE(contains(refused.error().text, "fake_c:1")) << refused.error().text;
  EXPECT_TRUE(contains(refused.error().text, "fake_d:1")) << refused.error().text;

  wire::EndPoint impossible_mtu = fits;
  impossible_mtu.rail[1].mtu = 0;
  const Status no_mtu = rails.check_pair(1, impossible_mtu);
  ASSERT_FALSE(no_mtu);
  EXPECT_TRUE(contains(no_mtu.error().text, "fake_d:1")) << no_mtu.error().text;
}

TEST_F(RailSetTest, CheckPeer_OtherNumberOfQueuePairs_NamesBothNumbers) {
  const RailSet rails = make_local(1);
  wire::EndPoint more_qps = described(make_remote(1));
  more_qps.qps = 4;
  const Status refused = rails.check_peer(more_qps);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(contains(refused.error().text, "number of QPs, 4")) << refused.error().text;
  EXPECT_TRUE(contains(refused.error().text, "this end's, 2")) << refused.error().text;
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

TEST_F(RailSetTest, Tables_AreRegisteredOnEveryRail) {
  const RailSet rails = make_local(1);
  auto tables = RailTables::create(rails, /*statements=*/true);
  ASSERT_TRUE(tables);
  EXPECT_EQ(verbs.live().mrs, 2);
  wire::EndPoint end = described(rails);
  tables->describe(&end);
  EXPECT_NE(end.rail[0].tables_rkey, 0u);
  EXPECT_NE(end.rail[1].tables_rkey, 0u);
  EXPECT_NE(end.rail[0].tables_rkey, end.rail[1].tables_rkey);
}

// A read by one HCA orders only that HCA's writes, so that each rail has a flush of its own.
TEST_F(RailSetTest, Flush_ReadsWithTheKeysOfItsRail) {
  RailSet rails = make_local(1);
  std::vector<char> bytes(64);
  MemoryHandle memory;
  std::set<uint32_t> rkeys;
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    const auto& hca = rails[rail].device().hca;
    const MemoryRegion region{reinterpret_cast<uintptr_t>(bytes.data()), bytes.size()};
    memory.add(rail, hca, hca->registrations().acquire(region, PciOrdering::kStrict).value());
  }
  for (uint32_t rail = 0; rail < rails.size(); ++rail) {
    Flush flush = Flush::create(rails[rail], rail, 1).value();
    StateChanges changes;
    flush.connect(rails[rail], {}, options, /*optional=*/false, &changes);
    ASSERT_TRUE(changes.step(options).value());
    verbs.forget_posted();
    ASSERT_EQ(flush.post(bytes.data(), memory, 7), 0);
    ASSERT_EQ(verbs.posted().size(), 1u);
    EXPECT_EQ(verbs.posted()[0].rkey, memory.keys[rail].rkey);
    ibv_wc completion{};
    ASSERT_EQ(ibv_poll_cq(rails[rail].cq(), 1, &completion), 1) << "in the CQ of rail " << rail;
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion.wr_id, 7u);
  }
}

// Two connections of two rails each, connected to each other.
struct TwoRailConnection : RailSetTest {
  std::shared_ptr<const ConnectionOptions> shared_options = shared(options);
  Connection local{shared_options, nullptr, /*sends=*/true};
  Connection remote{shared_options, nullptr, /*sends=*/false};

  static wire::EndPoint end_of(const Connection& connection, const RailTables& tables) {
    wire::EndPoint end{};
    connection.describe(kSecret, &end);
    tables.describe(&end);
    return end;
  }
  void add_rails(Connection& connection, const Device& first, const Device& second) {
    const RailSpec spec{2, QueueDepths{16, 16, 0}, 0};
    ASSERT_TRUE(connection.add_rail(first, spec));
    ASSERT_TRUE(connection.add_rail(second, spec));
  }
  void SetUp() override {
    add_rails(local, device("fake_a", 1), device("fake_c", 3));
    add_rails(remote, device("fake_b", 2), device("fake_d", 4));
    here = RailTables::create(local.rails(), /*statements=*/true).value();
    there = RailTables::create(remote.rails(), /*statements=*/true).value();
    ASSERT_TRUE(local.accept_peer(end_of(remote, *there)));
    ASSERT_TRUE(remote.accept_peer(end_of(local, *here)));
    local.begin_connecting({});
    remote.begin_connecting({});
    ASSERT_TRUE(local.change_states().value());
    ASSERT_TRUE(remote.change_states().value());
  }
  std::optional<RailTables> here;
  std::optional<RailTables> there;
};

TEST_F(TwoRailConnection, Text_NamesEachRailWithItsFirstQueuePair) {
  auto qp = [](const Connection& connection, size_t index) {
    char text[16];
    std::snprintf(text, sizeof(text), " qp 0x%x", connection.rails().pair(index).qp->qp_num);
    return std::string(text);
  };
  const std::string host = local.peer().host;
  EXPECT_EQ(local.text(), host + " fake_a:1 lid 1" + qp(local, 0) + " + fake_c:1 lid 3" +
                              qp(local, 1) + " <-> " + host + " fake_b:1 lid 2" + qp(remote, 0) +
                              " + fake_d:1 lid 4" + qp(remote, 1));
}

TEST_F(TwoRailConnection, EveryQueuePair_IsConnectedToItsCounterpart) {
  for (size_t i = 0; i < 4; ++i) {
    const ibv_qp_attr attributes = verbs.attributes(local.rails().pair(i).qp->qp_num);
    EXPECT_EQ(attributes.dest_qp_num, remote.rails().pair(i).qp->qp_num) << i;
    EXPECT_EQ(attributes.ah_attr.dlid, i % 2 == 0 ? 2 : 4) << i;
  }
}

// The fake refuses a key that is not of the HCA which uses it.
TEST_F(TwoRailConnection, TableEntry_ReachesThePeerOnEveryRail) {
  for (size_t i = 0; i < 4; ++i) {
    const QueuePair& pair = local.rails().pair(i);
    uint64_t* entry = &(*here)->sizes[i];
    *entry = 1000 + i;
    WriteRequest request(pair, here->copy_to_peer(entry, 1, local.peer(), pair));
    ASSERT_EQ(post(pair, &request.wr()), 0);
    EXPECT_EQ((*there)->sizes[i], 1000 + i) << i;
  }
}

TEST_F(TwoRailConnection, RegistrationScope_HasTheHcasOfBothRails) {
  const RegistrationScope scope = local.registration_scope();
  ASSERT_EQ(scope.hcas.size(), 2u);
  EXPECT_EQ(scope.hcas[0]->name(), "fake_a");
  EXPECT_EQ(scope.hcas[1]->name(), "fake_c");
}

struct TwoRailPair : CommPair {
  TwoRailPair() : CommPair(test_options(), false, true) {}
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
  pair.exchange(2 * kReceiveDepth + 2 * RailSet::kReceiveBatch);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.verbs.posted_receives(qp_number(*pair.receiver, i)), kReceiveDepth) << i;
  }
}

TEST(TwoRails, HcaOfTheSecondRailFails_FailsTheConnection) {
  TwoRailPair pair;
  pair.verbs.raise_event("fake_c", IBV_EVENT_DEVICE_FATAL, nullptr);
  ASSERT_TRUE(wait_for([&] { return pair.sender->connection().failed(); }));
  EXPECT_TRUE(contains(failure_of(*pair.sender).text, "fake_c reports"))
      << failure_of(*pair.sender).text;
}

}  // namespace
}  // namespace gdr::transport

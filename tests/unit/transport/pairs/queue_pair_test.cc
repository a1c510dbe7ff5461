#include "transport/pairs/queue_pair.h"

#include <gtest/gtest.h>

#include "tests/fakes/recorded_log.h"
#include "tests/unit/transport/comm_pair.h"

namespace gdr::transport {
namespace {

constexpr unsigned kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

TEST(QueuePair, Attributes_FollowTheOptions) {
  TransportOptions options = test_options();
  options.connection.ack_timeout = 17;
  options.connection.retry_count = 5;
  options.connection.pkey_index = 3;
  options.connection.service_level = 2;
  CommPair pair(options);
  const ibv_qp_attr attr = pair.verbs.attributes(qp_number(*pair.sender));
  EXPECT_EQ(attr.timeout, 17);
  EXPECT_EQ(attr.retry_cnt, 5);
  EXPECT_EQ(attr.rnr_retry, 7) << "a receiver that is slow is waited for without end";
  EXPECT_EQ(attr.pkey_index, 3);
  EXPECT_EQ(attr.ah_attr.sl, 2);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(static_cast<unsigned>(attr.qp_access_flags), kAccess);
}

TEST(QueuePair, Connected_NumbersOfBothEndsMatch) {
  CommPair pair(options_of_qps(3, /*split=*/false));
  const wire::EndPoint sender = end_of(*pair.sender);
  const wire::EndPoint receiver = end_of(*pair.receiver);
  for (size_t i = 0; i < 3; ++i) {
    const ibv_qp_attr ours = pair.verbs.attributes(sender.qp[i].number);
    const ibv_qp_attr theirs = pair.verbs.attributes(receiver.qp[i].number);
    EXPECT_EQ(ours.dest_qp_num, receiver.qp[i].number);
    EXPECT_EQ(theirs.dest_qp_num, sender.qp[i].number);
    EXPECT_EQ(ours.sq_psn, sender.first_psn);
    EXPECT_EQ(theirs.rq_psn, sender.first_psn);
    EXPECT_EQ(ours.rq_psn, receiver.first_psn);
    EXPECT_EQ(theirs.sq_psn, receiver.first_psn);
    EXPECT_EQ(pair.verbs.posted_receives(sender.qp[i].number), 0) << "it receives no data";
  }
}

TEST(QueuePair, PathMtu_IsTheSmallerOfBothPorts) {
  for (const char* smaller : {"fake_a", "fake_b"}) {
    Fabric fabric;
    fabric.verbs.port(smaller, 1).mtu = IBV_MTU_1024;
    auto sender = fabric.make_sender().value();
    auto receiver = fabric.make_receiver().value();
    ASSERT_TRUE(sender->connect(end_of(*receiver)));
    EXPECT_EQ(fabric.verbs.attributes(qp_number(*sender)).path_mtu, IBV_MTU_1024) << smaller;
  }
}

// The path of the sender's QP to "fake_b", and of the receiver's to "fake_a".
struct Paths {
  ibv_ah_attr to_receiver;
  ibv_ah_attr to_sender;
};
Paths connected_paths(Fabric& fabric, int qps = 1) {
  auto sender = fabric.make_sender().value();
  auto receiver = fabric.make_receiver(qps).value();
  EXPECT_TRUE(receiver->connect(end_of(*sender)).value());
  EXPECT_TRUE(sender->connect(end_of(*receiver)).value());
  return {fabric.verbs.attributes(qp_number(*sender)).ah_attr,
          fabric.verbs.attributes(qp_number(*receiver)).ah_attr};
}

// Virtual ports, as of SR-IOV, share a LID: the HCA looks at the GID.
TEST(QueuePair, OnePortRequiresAGrh_BothDirectionsHaveOneAndKeepTheLid) {
  for (const char* virtual_port : {"fake_a", "fake_b"}) {
    Fabric fabric;
    fabric.options.connection.traffic_class = 106;  // of RoCE
    fabric.verbs.port(virtual_port, 1).flags = IBV_QPF_GRH_REQUIRED;
    const Paths paths = connected_paths(fabric);
    EXPECT_EQ(paths.to_receiver.is_global, 1) << virtual_port;
    EXPECT_EQ(paths.to_receiver.dlid, 2) << virtual_port;
    EXPECT_EQ(paths.to_receiver.grh.dgid.raw[15], 2) << virtual_port;
    EXPECT_EQ(paths.to_receiver.grh.hop_limit, 255) << virtual_port;
    EXPECT_EQ(paths.to_receiver.grh.traffic_class, 0) << virtual_port;
    EXPECT_EQ(paths.to_sender.is_global, 1) << virtual_port;
    EXPECT_EQ(paths.to_sender.grh.dgid.raw[15], 1) << virtual_port;
  }
}

// Two ports of which each has a second GID with a FLID, at the index that NCCL looks at.
struct RoutedFabric : Fabric {
  void add_routable_gid(const char* hca, uint8_t subnet, uint8_t flid) {
    fake_verbs::Port& port = verbs.port(hca, 1);
    fake_verbs::Gid gid = port.gids[0];
    gid.raw[0] = 0xfe;
    gid.raw[1] = 0xc0;
    gid.raw[4] = 0xc0;
    gid.raw[5] = flid;
    gid.raw[7] = subnet;
    port.gids[0].raw[7] = subnet;
    port.gids.push_back(gid);
  }
};

TEST(QueuePair, OtherSubnetWithFlid_IsAddressedByFlidAndGid) {
  RoutedFabric fabric;
  fabric.add_routable_gid("fake_a", 1, 0x0a);
  fabric.add_routable_gid("fake_b", 2, 0x0b);
  RecordedLog log;
  const Paths paths = connected_paths(fabric);
  EXPECT_EQ(paths.to_receiver.dlid, 0xc00b);
  EXPECT_EQ(paths.to_receiver.is_global, 1);
  EXPECT_EQ(paths.to_receiver.grh.sgid_index, 1);
  EXPECT_EQ(paths.to_receiver.grh.dgid.raw[7], 2);
  EXPECT_EQ(paths.to_sender.dlid, 0xc00a);
  EXPECT_TRUE(log.warnings().empty());
}

TEST(QueuePair, FlidsInOneSubnet_AreNotUsedAndThereIsNoGrh) {
  RoutedFabric fabric;
  fabric.add_routable_gid("fake_a", 1, 0x0a);
  fabric.add_routable_gid("fake_b", 1, 0x0b);
  const Paths paths = connected_paths(fabric);
  EXPECT_EQ(paths.to_receiver.dlid, 2);
  EXPECT_EQ(paths.to_receiver.is_global, 0);
}

// As NCCL's net_ib: some routers may know the LID. A job has thousands of connections between two
// subnets.
TEST(QueuePair, OtherSubnetWithoutFlid_UsesTheLidAndWarnsOncePerPortAndSubnet) {
  Fabric fabric;
  fabric.verbs.port("fake_b", 1).gids[0].raw[7] = 9;
  fabric.options.connection.qps_per_connection = 4;
  RecordedLog log;
  const Paths paths = connected_paths(fabric, 4);
  connected_paths(fabric, 4);
  EXPECT_EQ(paths.to_receiver.is_global, 1);
  EXPECT_EQ(paths.to_receiver.dlid, 2);
  EXPECT_EQ(paths.to_receiver.grh.dgid.raw[7], 9);
  EXPECT_EQ(paths.to_receiver.grh.hop_limit, 255);
  EXPECT_EQ(log.warnings("fake_a:1 lid 1 and the peer's fake_b:1 lid 2 are in").size(), 1u);
  EXPECT_EQ(log.warnings("fake_b:1 lid 2 and the peer's fake_a:1 lid 1 are in").size(), 1u);
  EXPECT_EQ(log.warnings("NCCL_IB_ROUTABLE_FLID_GID_INDEX").size(), 2u);
  fabric.verbs.port("fake_b", 1).gids[0].raw[7] = 10;
  connected_paths(fabric, 4);
  EXPECT_EQ(log.warnings("fake_a:1 lid 1 and the peer's").size(), 2u) << "of another subnet";
}

// Only the sender's rank knows the communicator's class, or has the variables set.
TEST(QueuePair, RoceAndReceiverHasOtherOptions_UsesServiceLevelAndTrafficClassOfTheSender) {
  for (bool own_class : {false, true}) {
    Fabric fabric(test_options(), true);
    fabric.options.connection.service_level = 3;
    fabric.options.connection.traffic_class = 106;
    auto sender = fabric.make_sender().value();
    fabric.options.connection.service_level = 5;
    fabric.options.connection.traffic_class = 7;
    if (own_class) fabric.options.connection.clear_to_send_traffic_class = 104;
    auto receiver = fabric.make_receiver().value();
    ASSERT_TRUE(receiver->connect(end_of(*sender)).value());
    ASSERT_TRUE(sender->connect(end_of(*receiver)).value());
    const ibv_ah_attr data = fabric.verbs.attributes(qp_number(*sender)).ah_attr;
    const ibv_ah_attr clear_to_send = fabric.verbs.attributes(qp_number(*receiver)).ah_attr;
    EXPECT_EQ(data.is_global, 1);
    EXPECT_EQ(data.grh.dgid.raw[15], 2);
    EXPECT_EQ(clear_to_send.grh.dgid.raw[15], 1);
    EXPECT_EQ(data.sl, 3);
    EXPECT_EQ(data.grh.traffic_class, 106);
    EXPECT_EQ(clear_to_send.sl, 3);
    EXPECT_EQ(clear_to_send.grh.traffic_class, own_class ? 104 : 106);
    EXPECT_EQ(end_of(*receiver).service_level, 3);
    EXPECT_EQ(end_of(*receiver).traffic_class, own_class ? 104 : 106);
  }
}

// The port's address moves when its link comes back, so it is read when a connection is made.
TEST(QueuePair, LidChangedSinceDiscovery_TheNewOneIsUsed) {
  Fabric fabric;
  fabric.verbs.port("fake_b", 1).lid = 77;
  EXPECT_EQ(end_of(*fabric.make_receiver().value()).rail[0].lid, 77);
}

// A sender on an HCA with these limits.
struct LimitedFabric : Fabric {
  explicit LimitedFabric(void (*limit)(fake_verbs::HcaConfig&)) {
    auto config = fake_verbs::HcaConfig::infiniband("fake_l", 3);
    limit(config);
    sender_device = receiver_device = open(verbs.add_hca(config));
  }
};

// bnxt_re grants 96 bytes, irdma 101: one clear-to-send slot, not the three of a full pipeline.
TEST(QueuePair, HcaWithLittleInlineData_GrantsWhatFits) {
  const struct {
    void (*limit)(fake_verbs::HcaConfig&);
    uint32_t of_sender, of_receiver;
  } cases[] = {{[](auto& hca) { hca.max_inline_bytes = 192; }, 60, 192},
               {[](auto& hca) { hca.max_inline_bytes = 160; }, 60, 128},
               {[](auto& hca) { hca.max_inline_bytes = 96; }, 60, 64},
               {[](auto& hca) { hca.max_inline_bytes = 63; }, 60, 0},
               {[](auto& hca) { hca.max_inline_bytes = 0; }, 0, 0}};
  for (const auto& [limit, of_sender, of_receiver] : cases) {
    LimitedFabric fabric(limit);
    auto sender = fabric.make_sender().value();
    auto receiver = fabric.make_receiver().value();
    auto caps = fabric.verbs.queue_pairs();
    EXPECT_EQ(fabric.verbs.attributes(qp_number(*sender)).qp_state, IBV_QPS_INIT);
    EXPECT_EQ(caps.at(qp_number(*sender)).max_inline_data, of_sender);
    EXPECT_EQ(caps.at(qp_number(*receiver)).max_inline_data, of_receiver);
  }
}

TEST(QueuePair, HcaWithTooFewWorkRequests_NamesWhatItAllows) {
  LimitedFabric fabric([](auto& hca) { hca.max_work_requests = 100; });
  auto sender = fabric.make_sender();
  ASSERT_FALSE(sender);
  EXPECT_EQ(sender.error().code, Code::kSystem);
  EXPECT_TRUE(contains_all(sender.error().text, {"allows 100", "fake_l:1"}));
}

}  // namespace
}  // namespace gdr::transport

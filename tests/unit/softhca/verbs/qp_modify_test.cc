// What ibv_modify_qp refuses, and which connections carry data, by the configuration of the ports.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

using ModifyQp = Configured;

// Connects two endpoints, which may be the same one, and returns the status of a write of no bytes.
ibv_wc_status outcome(Endpoint& a, Endpoint& b, const Address& to_a, const Address& to_b) {
  a.connect(to_b);
  if (&a != &b) b.connect(to_a);
  return write_nothing(a);
}

ibv_wc_status outcome(Endpoint& a, Endpoint& b) { return outcome(a, b, a.address(), b.address()); }

ibv_qp_attr attributes(Endpoint& endpoint) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(ibv_query_qp(endpoint.qp(), &attr, IBV_QP_AV, &init), 0);
  return attr;
}

TEST_F(ModifyQp, FirstCallsRefused_NothingChangesThenSucceeds) {
  use(R"({"faults": [
      {"kind": "modify_qp_refused", "device": "softhca0", "count": 2}]})");
  Endpoint a;
  Endpoint b({.device = 1});
  Address to_b = b.address();
  ASSERT_EQ(a.to_init(), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(a.to_rtr(to_b), ETIMEDOUT);
    EXPECT_EQ(a.qp()->state, IBV_QPS_INIT);
    EXPECT_EQ(a.state(), IBV_QPS_INIT);
    EXPECT_EQ(attributes(a).dest_qp_num, 0u);
    EXPECT_EQ(attributes(a).ah_attr.dlid, 0);
    EXPECT_NE(a.to_rts(), 0);
  }
  ASSERT_EQ(a.to_rtr(to_b), 0);
  ASSERT_EQ(a.to_rts(), 0);
  b.connect(a.address());
  EXPECT_EQ(Request(IBV_WR_RDMA_WRITE, {}).post(a.qp()), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_SUCCESS);
}

TEST_F(ModifyQp, ConnectedToAQpThatNeverWas_OverModelledLink_RetryExceeded) {
  use(R"({"devices": [{"rate_gbps": 100}]})");
  Endpoint a;
  Address peer = a.address();
  peer.qpn += 100;
  a.connect(peer);
  EXPECT_EQ(write_nothing(a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(ModifyQp, InvalidCallsAndOtherStates_AreNotCounted) {
  use(R"({"faults": [
      {"kind": "modify_qp_refused", "device": "softhca0", "to": "RTS", "errno": 16}]})");
  Endpoint a;
  Address self = a.address();
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rts(), EINVAL);
  ASSERT_EQ(a.to_rtr(self), 0);
  EXPECT_EQ(a.to_rts(), EBUSY);
  EXPECT_EQ(a.state(), IBV_QPS_RTR);
  EXPECT_EQ(a.to_rts(), 0);
}

TEST_F(ModifyQp, RefusedOnOnePort_OtherPortConnects) {
  use(R"({"devices": [{"ports": 2}], "faults": [
      {"kind": "modify_qp_refused", "device": "softhca0", "port": 2, "count": 0}]})");
  Endpoint first;
  Endpoint second({.port = 2});
  EXPECT_EQ(outcome(first, first), IBV_WC_SUCCESS);
  ASSERT_EQ(second.to_init(), 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(second.to_rtr(second.address()), ETIMEDOUT);
}

TEST_F(ModifyQp, GrhRequired_PacketsWithoutAreLost) {
  use(R"({"devices": [{"grh_required": true}, {}]})");
  Endpoint with({.grh = true});
  EXPECT_EQ(with.query_port().flags, IBV_QPF_GRH_REQUIRED);
  EXPECT_EQ(Endpoint({.device = 1}).query_port().flags, 0);
  Endpoint peer({.device = 1, .grh = true});
  EXPECT_EQ(outcome(with, peer), IBV_WC_SUCCESS);
  Endpoint without;
  Endpoint other({.device = 1});
  EXPECT_EQ(outcome(without, other), IBV_WC_RETRY_EXC_ERR);
  // The answers need one as well.
  Endpoint sender({.grh = true});
  Endpoint receiver({.device = 1});
  EXPECT_EQ(outcome(sender, receiver), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(ModifyQp, GrhChecked_AddressWithoutIsRefused) {
  use(R"({"devices": [{"grh_required": "checked"}]})");
  Endpoint without;
  EXPECT_EQ(without.query_port().flags, IBV_QPF_GRH_REQUIRED);
  ASSERT_EQ(without.to_init(), 0);
  EXPECT_EQ(without.to_rtr(without.address()), EINVAL);
  Endpoint with({.grh = true});
  EXPECT_EQ(outcome(with, with), IBV_WC_SUCCESS);
}

TEST_F(ModifyQp, SourceGidBeyondTheTable_IsRefused) {
  use(R"({})");
  Endpoint a({.grh = true});
  Address self = a.address();
  Endpoint b({.gid_index = 1, .grh = true});
  ASSERT_EQ(b.to_init(), 0);
  EXPECT_EQ(b.to_rtr(self), EINVAL);
}

TEST_F(ModifyQp, TargetGidThatNobodyHas_NoAnswer) {
  use(R"({})");
  Endpoint a({.grh = true});
  Endpoint b({.grh = true});
  Address to_b = b.address();
  to_b.gid.raw[8] ^= 1;
  EXPECT_EQ(outcome(a, b, a.address(), to_b), IBV_WC_RETRY_EXC_ERR);
}

// As NCCL addresses a peer of another subnet: the routable GID of index 1, and its FLID as the LID.
TEST_F(ModifyQp, OtherSubnet_ReachedByFlid) {
  use(R"({"devices": [
      {"subnet_prefix": "fec0000000000001", "flid": 4097},
      {"subnet_prefix": "fec0000000000002", "flid": 4098}]})");
  Options near = {.gid_index = 1, .grh = true, .hop_limit = 255};
  Options far = {.device = 1, .gid_index = 1, .grh = true, .hop_limit = 255};
  Endpoint a(near);
  Endpoint b(far);
  Address to_a = a.address();
  Address to_b = b.address();
  EXPECT_EQ(to_b.gid.raw[4] << 8 | to_b.gid.raw[5], 4098);
  to_a.lid = 4097;
  to_b.lid = 4098;
  EXPECT_EQ(outcome(a, b, to_a, to_b), IBV_WC_SUCCESS);
  Endpoint c(near);
  Endpoint d(far);
  EXPECT_EQ(outcome(c, d), IBV_WC_RETRY_EXC_ERR) << "the LIDs of the other subnet";
  Endpoint e(near);
  EXPECT_EQ(outcome(e, e), IBV_WC_SUCCESS) << "one subnet";
}

TEST_F(ModifyQp, OtherSubnet_ReachedByTheRoutersLid) {
  use(R"({"devices": [
      {"subnet_prefix": "fec0000000000001", "router_lid": 77},
      {"subnet_prefix": "fec0000000000002", "router_lid": 78}]})");
  Endpoint a({.grh = true});
  Endpoint b({.device = 1, .grh = true});
  Address to_a = a.address();
  Address to_b = b.address();
  to_a.lid = 78;
  to_b.lid = 77;
  EXPECT_EQ(outcome(a, b, to_a, to_b), IBV_WC_SUCCESS);
}

// The table: 0 and 1 are the link-local GID as RoCE v1 and v2, 2 and 3 the IPv4 address, 4 and 5
// the IPv6 address.
TEST_F(ModifyQp, RoceVersionsAndFamilies_DoNotMix) {
  use(R"({"devices": [
      {"link_layer": "Ethernet", "gids": ["::ffff:10.0.0.1", "fd00::1"]},
      {"link_layer": "Ethernet", "gids": ["::ffff:10.0.0.2", "fd00::2"]}]})");
  struct Case {
    uint8_t a, b;
    int refused;  // by ibv_modify_qp of a
    ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
  };
  for (const Case& one :
       {Case{3, 3, 0, IBV_WC_SUCCESS}, Case{4, 4, 0, IBV_WC_SUCCESS}, Case{2, 3, 0}, Case{3, 2, 0},
        Case{0, 1, 0}, Case{5, 4, 0}, Case{3, 5, EINVAL}, Case{5, 3, EINVAL}, Case{3, 1, EINVAL},
        Case{2, 0, 0}}) {
    SCOPED_TRACE(testing::Message() << int{one.a} << " to " << int{one.b});
    Endpoint a({.timeout = 1, .gid_index = one.a});
    Endpoint b({.device = 1, .gid_index = one.b});
    ASSERT_EQ(a.to_init(), 0);
    EXPECT_EQ(a.to_rtr(b.address()), one.refused);
    if (one.refused != 0) continue;
    ASSERT_EQ(a.to_rts(), 0);
    ASSERT_EQ(b.to_init(), 0);
    if (b.to_rtr(a.address()) == 0) {
      ASSERT_EQ(b.to_rts(), 0);
    }
    EXPECT_EQ(write_nothing(a), one.status);
  }
}

TEST_F(ModifyQp, Iwarp_IsNotConnectedThisWay) {
  use(R"({"devices": [{"transport": "iWARP"}]})");
  Endpoint a;
  EXPECT_EQ(a.query_port().link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(a.context()->device->node_type, IBV_NODE_RNIC);
  EXPECT_EQ(a.context()->device->transport_type, IBV_TRANSPORT_IWARP);
  ASSERT_EQ(a.to_init(), 0);
  EXPECT_EQ(a.to_rtr(a.address()), EINVAL);
}

}  // namespace
}  // namespace softhca_test

// ibv_query_qp: what ibv_modify_qp has set, until the QP is reset.
#include <gtest/gtest.h>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

constexpr int kEverything = (IBV_QP_DEST_QPN << 1) - 1;

ibv_qp_attr query(ibv_qp* qp) {
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  EXPECT_EQ(ibv_query_qp(qp, &attr, kEverything, &init), 0);
  return attr;
}

ibv_qp_attr connected_attributes(const Address& peer) {
  ibv_qp_attr attr = {};
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  attr.path_mtu = IBV_MTU_2048;
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = 0x123456;
  attr.sq_psn = 0x654321;
  attr.max_dest_rd_atomic = 16;
  attr.max_rd_atomic = 3;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_cnt = 6;
  attr.rnr_retry = 5;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.sl = 2;
  attr.ah_attr.port_num = 1;
  return attr;
}

constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToRts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

int step(ibv_qp* qp, ibv_qp_attr attr, ibv_qp_state to, int mask) {
  attr.qp_state = to;
  return ibv_modify_qp(qp, &attr, mask);
}

TEST(QueryQp, Connected_ReturnsEveryAttributeThatWasSet) {
  Endpoint a;
  const ibv_qp_attr set = connected_attributes(a.address());
  ASSERT_EQ(step(a.qp(), set, IBV_QPS_INIT, kToInit), 0);
  ASSERT_EQ(step(a.qp(), set, IBV_QPS_RTR, kToRtr), 0);
  ASSERT_EQ(step(a.qp(), set, IBV_QPS_RTS, kToRts), 0);
  const ibv_qp_attr got = query(a.qp());
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.cur_qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.port_num, set.port_num);
  EXPECT_EQ(got.qp_access_flags, set.qp_access_flags);
  EXPECT_EQ(got.path_mtu, set.path_mtu);
  EXPECT_EQ(got.dest_qp_num, set.dest_qp_num);
  EXPECT_EQ(got.rq_psn, set.rq_psn);
  EXPECT_EQ(got.sq_psn, set.sq_psn);
  EXPECT_EQ(got.max_dest_rd_atomic, set.max_dest_rd_atomic);
  EXPECT_EQ(got.max_rd_atomic, set.max_rd_atomic);
  EXPECT_EQ(got.min_rnr_timer, set.min_rnr_timer);
  EXPECT_EQ(got.timeout, set.timeout);
  EXPECT_EQ(got.retry_cnt, set.retry_cnt);
  EXPECT_EQ(got.rnr_retry, set.rnr_retry);
  EXPECT_EQ(got.ah_attr.dlid, set.ah_attr.dlid);
  EXPECT_EQ(got.ah_attr.sl, set.ah_attr.sl);
  EXPECT_EQ(got.cap.max_send_wr, 64u);
}

TEST(QueryQp, Reset_KeepsNoAttribute) {
  Endpoint a;
  a.connect(a.address());
  ASSERT_EQ(a.to_state(IBV_QPS_RESET), 0);
  const ibv_qp_attr got = query(a.qp());
  EXPECT_EQ(got.qp_state, IBV_QPS_RESET);
  EXPECT_EQ(got.port_num, 0);
  EXPECT_EQ(got.dest_qp_num, 0u);
  EXPECT_EQ(got.qp_access_flags, 0u);
  EXPECT_EQ(got.timeout, 0);
  EXPECT_EQ(got.cap.max_send_wr, 64u) << "what the QP was created with";
  a.connect(a.address());
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
}

TEST(ModifyQp, MoreReadsThanTheDeviceHas_InvalidAndTheStateIsAsBefore) {
  Endpoint a;
  ibv_device_attr device = {};
  ASSERT_EQ(ibv_query_device(a.context(), &device), 0);
  ibv_qp_attr set = connected_attributes(a.address());
  ASSERT_EQ(step(a.qp(), set, IBV_QPS_INIT, kToInit), 0);
  set.max_dest_rd_atomic = static_cast<uint8_t>(device.max_qp_rd_atom + 1);
  EXPECT_EQ(step(a.qp(), set, IBV_QPS_RTR, kToRtr), EINVAL);
  EXPECT_EQ(a.state(), IBV_QPS_INIT);
  set.max_dest_rd_atomic = static_cast<uint8_t>(device.max_qp_rd_atom);
  ASSERT_EQ(step(a.qp(), set, IBV_QPS_RTR, kToRtr), 0);
  set.max_rd_atomic = static_cast<uint8_t>(device.max_qp_init_rd_atom + 1);
  EXPECT_EQ(step(a.qp(), set, IBV_QPS_RTS, kToRts), EINVAL);
  EXPECT_EQ(a.state(), IBV_QPS_RTR);
}

TEST(Rates, Multiples_AreThoseOfRdmaCore) {
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_50_GBPS), 20);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_400_GBPS), 160);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_1200_GBPS), 480);
  EXPECT_EQ(mult_to_ibv_rate(240), IBV_RATE_600_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_400_GBPS), 425000);
}

}  // namespace
}  // namespace softhca_test

// Memory windows of both types: what they allow, and how they end.
#include <gtest/gtest.h>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

using MwPtr = std::unique_ptr<ibv_mw, Deleter<ibv_mw, ibv_dealloc_mw>>;

constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned kWrite = IBV_ACCESS_REMOTE_WRITE;

MwPtr allocate(Endpoint& endpoint, ibv_mw_type type) {
  MwPtr mw(ibv_alloc_mw(endpoint.pd(), type));
  EXPECT_NE(mw, nullptr);
  return mw;
}

// Binds a window of type 1 and returns the status of the completion.
ibv_wc_status bind1(Endpoint& endpoint, ibv_mw* mw, ibv_mw_bind_info info) {
  ibv_mw_bind bind = {5, IBV_SEND_SIGNALED, info};
  EXPECT_EQ(ibv_bind_mw(endpoint.qp(), mw, &bind), 0);
  ibv_wc wc = endpoint.wait();
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
  return wc.status;
}

Request bind2_request(ibv_mw* mw, uint32_t key, ibv_mw_bind_info info) {
  Request request(IBV_WR_BIND_MW, {});
  request.wr.bind_mw = {mw, key, info};
  return request;
}

ibv_wc_status bind2(Endpoint& endpoint, ibv_mw* mw, uint32_t key, ibv_mw_bind_info info) {
  EXPECT_EQ(bind2_request(mw, key, info).post(endpoint.qp()), 0);
  return endpoint.wait().status;
}

ibv_mw_bind_info all_of(const Buffer& buffer, unsigned access = kWrite) {
  return {buffer.mr.get(), buffer.address(), buffer.bytes.size(), access};
}

TEST(Window, Type1_AllowsItsRangeAndItsAccess) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 32, kBindable);
  from.fill(3);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  uint32_t unbound = mw->rkey;
  ASSERT_EQ(bind1(pair.b, mw.get(), {to.mr.get(), to.address(8), 16, kWrite}), IBV_WC_SUCCESS);
  EXPECT_NE(mw->rkey, unbound);
  ASSERT_EQ(rdma_write(pair, from, to.address(16), mw->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(from.bytes.begin(), from.bytes.end(), to.bytes.begin() + 16));
  EXPECT_EQ(rdma_write(pair, from, to.address(17), mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, NotBound_RemoteAccessError) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  EXPECT_EQ(rdma_write(pair, from, to.address(), mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, WithoutThatAccess_RemoteAccessError) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kAllAccess | IBV_ACCESS_MW_BIND);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(pair.b, mw.get(), all_of(to, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_write(pair, from, to.address(), mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, ZeroBased_AddressesCountFromItsStart) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 32, kBindable);
  from.fill(9);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  ibv_mw_bind_info info = {to.mr.get(), to.address(8), 16, kWrite | IBV_ACCESS_ZERO_BASED};
  ASSERT_EQ(bind1(pair.b, mw.get(), info), IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_write(pair, from, 4, mw->rkey), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(from.bytes.begin(), from.bytes.end(), to.bytes.begin() + 12));
}

TEST(Window, Type1BoundAgain_TheOldKeyEnds) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(pair.b, mw.get(), all_of(to)), IBV_WC_SUCCESS);
  uint32_t old_key = mw->rkey;
  ASSERT_EQ(bind1(pair.b, mw.get(), all_of(to)), IBV_WC_SUCCESS);
  ASSERT_EQ(rdma_write(pair, from, to.address(), mw->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_write(pair, from, to.address(), old_key), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, Type1BoundWithLengthZero_Unbinds) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(pair.b, mw.get(), all_of(to)), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(to.mr.get()), EBUSY);
  ASSERT_EQ(bind1(pair.b, mw.get(), {}), IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_write(pair, from, to.address(), mw->rkey), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, RegionThatDoesNotAllowIt_BindError) {
  struct Case {
    int region;
    unsigned window;
    uint64_t length;
  };
  for (Case wrong : {Case{IBV_ACCESS_LOCAL_WRITE, kWrite, 8}, Case{IBV_ACCESS_MW_BIND, kWrite, 8},
                     Case{kBindable, kWrite, 9}}) {
    Pair pair;
    Buffer to(pair.b, 8, wrong.region);
    MwPtr mw = allocate(pair.b, IBV_MW_TYPE_2);
    ibv_mw_bind_info info = {to.mr.get(), to.address(), wrong.length, wrong.window};
    EXPECT_EQ(bind2(pair.b, mw.get(), ibv_inc_rkey(mw->rkey), info), IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
  }
}

TEST(Window, Type2_OnlyTheQpItWasBoundOn) {
  Pair pair;
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(mw->rkey);
  // Another QP of the same PD, connected with itself.
  ibv_qp_init_attr attr = {};
  attr.send_cq = attr.recv_cq = pair.b.cq();
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = IBV_QPT_RC;
  QpPtr other(ibv_create_qp(pair.b.pd(), &attr));
  Address self = {other->qp_num, pair.b.address().lid, {}};
  ASSERT_EQ(pair.b.connect_qp(other.get(), self), 0);

  ASSERT_EQ(bind2(pair.b, mw.get(), key, all_of(to)), IBV_WC_SUCCESS);
  Buffer from(pair.b, 8);
  ASSERT_EQ(Request(IBV_WR_RDMA_WRITE, from.sge(), to.address(), key).post(other.get()), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_REM_ACCESS_ERR);
  Buffer sent(pair.a, 8);
  EXPECT_EQ(rdma_write(pair, sent, to.address(), key), IBV_WC_SUCCESS);
}

TEST(Window, Type2LocallyInvalidated_RemoteAccessErrorAndMayBeBoundAgain) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind2(pair.b, mw.get(), key, all_of(to)), IBV_WC_SUCCESS);
  Request invalidate(IBV_WR_LOCAL_INV, {});
  invalidate.wr.invalidate_rkey = key;
  ASSERT_EQ(invalidate.post(pair.b.qp()), 0);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_LOCAL_INV);
  uint32_t next = ibv_inc_rkey(key);
  ASSERT_EQ(bind2(pair.b, mw.get(), next, all_of(to)), IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_write(pair, from, to.address(), next), IBV_WC_SUCCESS);
  EXPECT_EQ(rdma_write(pair, from, to.address(), key), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, Type2BoundTwice_BindError) {
  Pair pair;
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind2(pair.b, mw.get(), key, all_of(to)), IBV_WC_SUCCESS);
  EXPECT_EQ(bind2(pair.b, mw.get(), ibv_inc_rkey(key), all_of(to)), IBV_WC_MW_BIND_ERR);
}

TEST(Window, SendWithInvalidate_EndsTheBindingAndNamesTheKey) {
  Pair pair;
  Buffer from(pair.a, 8);
  Buffer to(pair.b, 8, kBindable);
  MwPtr mw = allocate(pair.b, IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind2(pair.b, mw.get(), key, all_of(to)), IBV_WC_SUCCESS);
  ASSERT_EQ(pair.b.recv_empty(6), 0);
  Request send(IBV_WR_SEND_WITH_INV, {});
  send.wr.invalidate_rkey = key;
  ASSERT_EQ(send.post(pair.a.qp()), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(wc.invalidated_rkey, key);
  EXPECT_EQ(rdma_write(pair, from, to.address(), key), IBV_WC_REM_ACCESS_ERR);
}

TEST(Window, SendInvalidatesTheKeyOfARegion_ErrorsAtBothEnds) {
  Pair pair;
  Buffer to(pair.b, 8);
  ASSERT_EQ(pair.b.recv_empty(6), 0);
  Request send(IBV_WR_SEND_WITH_INV, {});
  send.wr.invalidate_rkey = to.rkey();
  ASSERT_EQ(send.post(pair.a.qp()), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Window, KeyAsLkey_LocalProtectionError) {
  Pair pair;
  Buffer from(pair.a, 8, kAllAccess | IBV_ACCESS_MW_BIND);
  Buffer to(pair.b, 8);
  MwPtr mw = allocate(pair.a, IBV_MW_TYPE_1);
  ASSERT_EQ(bind1(pair.a, mw.get(), all_of(from, kWrite | IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
  ibv_sge sge = {from.address(), 8, mw->rkey};
  ASSERT_EQ(Request(IBV_WR_RDMA_WRITE, sge, to.address(), to.rkey()).post(pair.a.qp()), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST(Window, RequestThatCannotBeBound_RefusedWhenPosted) {
  Pair pair;
  Buffer to(pair.b, 8, kBindable);
  MwPtr type1 = allocate(pair.b, IBV_MW_TYPE_1);
  MwPtr type2 = allocate(pair.b, IBV_MW_TYPE_2);
  uint32_t key1 = ibv_inc_rkey(type1->rkey);
  EXPECT_EQ(bind2_request(type1.get(), key1, all_of(to)).post(pair.b.qp()), EINVAL);
  EXPECT_EQ(bind2_request(type2.get(), key1, all_of(to)).post(pair.b.qp()), EINVAL);
  EXPECT_EQ(ibv_alloc_mw(pair.b.pd(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace softhca_test

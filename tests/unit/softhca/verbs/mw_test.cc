// Memory windows of both types: what they allow, and how they end. rdma-core's own tests
// (tests/softhca) show their everyday use.
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

ibv_mw_bind_info all_of(const Buffer& buffer, unsigned access = kWrite) {
  return {buffer.mr.get(), buffer.address(), buffer.bytes.size(), access};
}

// A window of b's memory, and what a writes there.
struct Window : Pair {
  explicit Window(ibv_mw_type type, int region = kBindable, size_t bytes = 8)
      : to(b, bytes, region), mw(allocate(b, type)) {
    from.fill(3);
  }
  ibv_wc_status bind2(uint32_t key, ibv_mw_bind_info info) {
    EXPECT_EQ(bind2_request(mw.get(), key, info).post(b.qp()), 0);
    return b.wait().status;
  }
  ibv_wc_status write(uint64_t address, uint32_t key) {
    return status_of(a, Request(IBV_WR_RDMA_WRITE, from.sge(), address, key));
  }

  Buffer from{a, 8};
  Buffer to;
  MwPtr mw;
};

TEST(Window, Type1_AllowsItsRangeAndItsAccess) {
  struct Case {
    ibv_mw_bind_info window;  // of 32 bytes; mr and addr are relative to their start
    uint64_t address;         // the same, but of a zero-based window
    size_t arrives;           // where
    ibv_wc_status status;
  };
  constexpr unsigned kZeroBased = kWrite | IBV_ACCESS_ZERO_BASED;
  constexpr unsigned kReadOnly = IBV_ACCESS_REMOTE_READ;
  for (const Case& one : {Case{{nullptr, 8, 16, kWrite}, 8, 8, IBV_WC_SUCCESS},
                          Case{{nullptr, 8, 16, kWrite}, 16, 16, IBV_WC_SUCCESS},
                          Case{{nullptr, 8, 16, kWrite}, 17, 0, IBV_WC_REM_ACCESS_ERR},
                          Case{{nullptr, 8, 16, kWrite}, 7, 0, IBV_WC_REM_ACCESS_ERR},
                          Case{{nullptr, 8, 16, kReadOnly}, 8, 0, IBV_WC_REM_ACCESS_ERR},
                          Case{{nullptr, 8, 16, kZeroBased}, 4, 12, IBV_WC_SUCCESS},
                          Case{{nullptr, 0, 0, 0}, 8, 0, IBV_WC_REM_ACCESS_ERR}}) {
    SCOPED_TRACE(testing::Message() << one.window.mw_access_flags << " " << one.address);
    Window window(IBV_MW_TYPE_1, kAllAccess | IBV_ACCESS_MW_BIND, 32);
    ibv_mw_bind_info info = one.window;
    const uint32_t unbound = window.mw->rkey;
    if (info.length > 0) {
      info.mr = window.to.mr.get();
      info.addr += window.to.address();
      ASSERT_EQ(bind1(window.b, window.mw.get(), info), IBV_WC_SUCCESS);
      EXPECT_NE(window.mw->rkey, unbound);
    }
    const uint64_t start = info.mw_access_flags == kZeroBased ? 0 : window.to.address();
    EXPECT_EQ(window.write(start + one.address, window.mw->rkey), one.status);
    if (one.status != IBV_WC_SUCCESS) continue;
    const std::vector<uint8_t>& sent = window.from.bytes;
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), &window.to.bytes[one.arrives]));
  }
}

TEST(Window, Type1BoundAgainOrUnbound_TheOldKeyEnds) {
  for (bool again : {true, false}) {
    Window window(IBV_MW_TYPE_1);
    ASSERT_EQ(bind1(window.b, window.mw.get(), all_of(window.to)), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(window.to.mr.get()), EBUSY);
    const uint32_t old_key = window.mw->rkey;
    const ibv_mw_bind_info next = again ? all_of(window.to) : ibv_mw_bind_info{};
    ASSERT_EQ(bind1(window.b, window.mw.get(), next), IBV_WC_SUCCESS);
    if (again) {
      ASSERT_EQ(window.write(window.to.address(), window.mw->rkey), IBV_WC_SUCCESS);
    }
    EXPECT_EQ(window.write(window.to.address(), old_key), IBV_WC_REM_ACCESS_ERR);
  }
}

TEST(Window, RegionThatDoesNotAllowIt_BindError) {
  struct Case {
    int region;
    uint64_t offset, length;  // of the window in the region's 8 bytes
  };
  for (Case wrong : {Case{IBV_ACCESS_LOCAL_WRITE, 0, 8}, Case{IBV_ACCESS_MW_BIND, 0, 8},
                     Case{kBindable, 0, 9}, Case{kBindable, 9, 8}}) {
    Window window(IBV_MW_TYPE_2, wrong.region);
    const ibv_mw_bind_info info = {window.to.mr.get(), window.to.address(wrong.offset),
                                   wrong.length, kWrite};
    EXPECT_EQ(window.bind2(ibv_inc_rkey(window.mw->rkey), info), IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(window.b.state(), IBV_QPS_ERR);
  }
}

TEST(Window, Type2_OnlyTheQpItWasBoundOn) {
  Window window(IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(window.mw->rkey);
  // Another QP of the same PD, connected with itself.
  QpPtr other = make_qp(window.b.pd(), window.b.cq());
  Address self = {other->qp_num, window.b.address().lid, {}};
  ASSERT_EQ(window.b.connect_qp(other.get(), self), 0);

  ASSERT_EQ(window.bind2(key, all_of(window.to)), IBV_WC_SUCCESS);
  Buffer from(window.b, 8);
  Request write(IBV_WR_RDMA_WRITE, from.sge(), window.to.address(), key);
  ASSERT_EQ(write.post(other.get()), 0);
  EXPECT_EQ(window.b.wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(window.write(window.to.address(), key), IBV_WC_SUCCESS);
}

TEST(Window, Type2InvalidatedByEitherEnd_TheKeyEndsAndTheWindowMayBeBoundAgain) {
  for (bool by_peer : {false, true}) {
    Window window(IBV_MW_TYPE_2);
    uint32_t key = ibv_inc_rkey(window.mw->rkey), next = ibv_inc_rkey(key);
    ASSERT_EQ(window.bind2(key, all_of(window.to)), IBV_WC_SUCCESS);
    Request invalidate(by_peer ? IBV_WR_SEND_WITH_INV : IBV_WR_LOCAL_INV, {});
    invalidate.wr.invalidate_rkey = key;
    if (by_peer) {
      ASSERT_EQ(window.b.recv_empty(6), 0);
      EXPECT_EQ(status_of(window.a, invalidate), IBV_WC_SUCCESS);
    } else {
      post(window.b, invalidate);
    }
    ibv_wc wc = window.b.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, by_peer ? IBV_WC_RECV : IBV_WC_LOCAL_INV);
    EXPECT_EQ(wc.wc_flags, by_peer ? unsigned{IBV_WC_WITH_INV} : 0u);
    EXPECT_TRUE(!by_peer || wc.invalidated_rkey == key);
    ASSERT_EQ(window.bind2(next, all_of(window.to)), IBV_WC_SUCCESS);
    EXPECT_EQ(window.write(window.to.address(), next), IBV_WC_SUCCESS);
    EXPECT_EQ(window.write(window.to.address(), key), IBV_WC_REM_ACCESS_ERR);
  }
}

TEST(Window, Type2BoundTwice_BindError) {
  Window window(IBV_MW_TYPE_2);
  uint32_t key = ibv_inc_rkey(window.mw->rkey);
  ASSERT_EQ(window.bind2(key, all_of(window.to)), IBV_WC_SUCCESS);
  EXPECT_EQ(window.bind2(ibv_inc_rkey(key), all_of(window.to)), IBV_WC_MW_BIND_ERR);
}

TEST(Window, SendInvalidatesTheKeyOfARegion_ErrorsAtBothEnds) {
  Pair pair;
  Buffer to(pair.b, 8);
  ASSERT_EQ(pair.b.recv_empty(6), 0);
  Request send(IBV_WR_SEND_WITH_INV, {});
  send.wr.invalidate_rkey = to.rkey();
  EXPECT_EQ(status_of(pair.a, send), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Window, KeyAsLkey_LocalProtectionError) {
  Window window(IBV_MW_TYPE_1, kAllAccess | IBV_ACCESS_MW_BIND);
  ibv_mw_bind_info info = all_of(window.to, kWrite | IBV_ACCESS_REMOTE_READ);
  ASSERT_EQ(bind1(window.b, window.mw.get(), info), IBV_WC_SUCCESS);
  ibv_sge sge = {window.to.address(), 8, window.mw->rkey};
  EXPECT_EQ(status_of(window.b, Request(IBV_WR_RDMA_WRITE, sge, window.from)), IBV_WC_LOC_PROT_ERR);
}

TEST(Window, RequestThatCannotBeBound_RefusedWhenPosted) {
  Window window(IBV_MW_TYPE_1);
  MwPtr type2 = allocate(window.b, IBV_MW_TYPE_2);
  uint32_t key1 = ibv_inc_rkey(window.mw->rkey);
  for (ibv_mw* mw : {window.mw.get(), type2.get()}) {
    EXPECT_EQ(bind2_request(mw, key1, all_of(window.to)).post(window.b.qp()), EINVAL);
  }
  EXPECT_EQ(ibv_alloc_mw(window.b.pd(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace softhca_test

// Completion queues: their options, and the change of their size.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

// Completes `count` requests of a's with the ids first, first + 1, and so on.
void complete(Pair& pair, uint64_t first, int count) {
  for (int i = 0; i < count; ++i) {
    Request request(IBV_WR_RDMA_WRITE, {});
    request.wr.wr_id = first + static_cast<uint64_t>(i);
    post(pair.a, request);
  }
}

void expect_ids(Pair& pair, uint64_t first, int count) {
  for (int i = 0; i < count; ++i) {
    ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, first + static_cast<uint64_t>(i));
  }
}

TEST(Resize, Grown_KeepsItsCompletionsAndHoldsMore) {
  Pair pair({.cqe = 4});
  complete(pair, 1, 3);
  expect_ids(pair, 1, 2);  // the third lies at a position that moves
  complete(pair, 4, 3);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq(), 40), 0);
  EXPECT_GE(pair.a.cq()->cqe, 40);
  complete(pair, 7, 36);
  expect_ids(pair, 3, 40);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST(Resize, Shrunk_OverrunsAtTheNewSize) {
  Pair pair({.cqe = 64});
  complete(pair, 1, 2);
  ASSERT_EQ(ibv_resize_cq(pair.a.cq(), 3), 0);
  EXPECT_EQ(pair.a.cq()->cqe, 3);
  complete(pair, 3, 1);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
  complete(pair, 4, 1);
  EXPECT_EQ(pair.a.wait_event(), IBV_EVENT_CQ_ERR);
  expect_ids(pair, 1, 3);
}

TEST(Resize, BelowItsCompletionsOrOutOfRange_InvalidAndAsBefore) {
  Pair pair({.cqe = 8});
  complete(pair, 1, 3);
  for (int count : {2, 0, -1, 1 << 21}) {
    EXPECT_EQ(ibv_resize_cq(pair.a.cq(), count), EINVAL) << count;
  }
  EXPECT_EQ(pair.a.cq()->cqe, 8);
  expect_ids(pair, 1, 3);
}

TEST(Resize, BetweenSends_NoCompletionIsLost) {
  Pair pair({}, {.cqe = 64});
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 8; ++i) ASSERT_EQ(pair.b.recv_empty(static_cast<uint64_t>(i)), 0);
    for (int i = 0; i < 8; ++i) {
      post(pair.a, Request(IBV_WR_SEND, {}));
      ASSERT_EQ(ibv_resize_cq(pair.b.cq(), 16 << (i % 4)), 0);
    }
    for (uint64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(pair.b.wait().wr_id, i);
      EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    }
  }
}

TEST(ExtendedDeviceAttributes, LargerStructure_UnknownFieldsReadZero) {
  ContextPtr context = open_device(0);
  struct Newer {
    ibv_device_attr_ex known;
    uint8_t unknown[64];
  } attr;
  memset(&attr, 0xff, sizeof attr);
  verbs_context* verbs = verbs_get_ctx(context.get());
  ASSERT_EQ(verbs->query_device_ex(context.get(), nullptr, &attr.known, sizeof attr), 0);
  EXPECT_EQ(attr.known.phys_port_cnt_ex, 1u);
  for (uint8_t byte : attr.unknown) EXPECT_EQ(byte, 0);
}

}  // namespace
}  // namespace softhca_test

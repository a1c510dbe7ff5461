// Completion queues: their options, and the change of their size.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

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

// Moves a QP that has no peer to `state`.
int to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr = {};
  attr.qp_state = state;
  attr.port_num = 1;
  const int initial = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? initial : 0));
}

int recv_empty(ibv_qp* qp, uint64_t wr_id) {
  ibv_recv_wr wr = {};
  wr.wr_id = wr_id;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

// Lets a QP in RESET complete four receives as flushed, the first of them as `first`.
void flush_four(ibv_qp* qp, uint64_t first) {
  ASSERT_EQ(to_state(qp, IBV_QPS_INIT), 0);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(recv_empty(qp, first + i), 0) << i;
  ASSERT_EQ(to_state(qp, IBV_QPS_ERR), 0);
}

TEST(Reset, CompletionsLeftInTheCq_TakeNoRoom) {
  Endpoint a({.cqe = 6});
  QpPtr other = make_qp(a.pd(), a.cq());
  ASSERT_EQ(to_state(other.get(), IBV_QPS_INIT), 0);
  ASSERT_EQ(recv_empty(other.get(), 1), 0);
  ASSERT_EQ(to_state(other.get(), IBV_QPS_ERR), 0);
  flush_four(a.qp(), 10);
  ASSERT_EQ(recv_empty(other.get(), 2), 0);
  ASSERT_EQ(to_state(a.qp(), IBV_QPS_RESET), 0);
  flush_four(a.qp(), 20);
  for (uint64_t id : {1, 2, 20, 21, 22, 23}) EXPECT_EQ(a.wait().wr_id, id);
  EXPECT_TRUE(a.quiet());
}

// The poller has taken one completion of the QP, and takes another one while the QP is being reset.
TEST(Reset, WhileCompletionsArePolled_ReceiveQueueIsEmpty) {
  Endpoint a;
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 16;
  ibv_cq_ex* polled = ibv_create_cq_ex(a.context(), &attr);
  ASSERT_NE(polled, nullptr);
  CqPtr cq(ibv_cq_ex_to_cq(polled));
  QpPtr qp = make_qp(a.pd(), cq.get());
  flush_four(qp.get(), 0);
  ibv_poll_cq_attr options = {};
  ASSERT_EQ(ibv_start_poll(polled, &options), 0);
  std::thread resetter([&] { EXPECT_EQ(to_state(qp.get(), IBV_QPS_RESET), 0); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(ibv_next_poll(polled), 0);
  ibv_end_poll(polled);
  resetter.join();
  flush_four(qp.get(), 4);
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

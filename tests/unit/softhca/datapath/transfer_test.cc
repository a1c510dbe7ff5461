// All operations in their success case: data arrives complete and in order.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

TEST(WriteWithImm, ZeroBytes_CompletesReceive) {
  Pair pair;
  ASSERT_EQ(pair.b.recv_empty(77), 0);
  Request request(IBV_WR_RDMA_WRITE_WITH_IMM, {});
  request.wr.imm_data = 0xdeadbeef;
  EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 77u);
  EXPECT_EQ(wc.imm_data, 0xdeadbeef);
  EXPECT_EQ(wc.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(wc.qp_num, pair.b.qp()->qp_num);
  EXPECT_EQ(wc.src_qp, pair.a.qp()->qp_num);
}

TEST(Send, SeveralSgesAtBothEnds_Scatters) {
  Buffers pair(300);
  pair.from.fill(9);
  ibv_sge recv_list[3] = {pair.to.sge(0, 100), pair.to.sge(100, 1), pair.to.sge(200, 100)};
  ibv_recv_wr recv = {};
  recv.sg_list = recv_list;
  recv.num_sge = 3;
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_recv(pair.b.qp(), &recv, &bad_recv), 0);
  ibv_sge send_list[2] = {pair.from.sge(0, 120), pair.from.sge(150, 30)};
  Request request(IBV_WR_SEND_WITH_IMM, pair.from.sge());
  request.wr.sg_list = send_list;
  request.wr.num_sge = 2;
  request.wr.imm_data = 5;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair.a.qp(), &request.wr, &bad), 0);
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 150u);
  EXPECT_EQ(wc.imm_data, 5u);
  EXPECT_TRUE(
      std::equal(pair.to.bytes.begin(), pair.to.bytes.begin() + 101, pair.from.bytes.begin()));
  EXPECT_TRUE(std::equal(pair.to.bytes.begin() + 200, pair.to.bytes.begin() + 219,
                         pair.from.bytes.begin() + 101));
  EXPECT_TRUE(std::equal(pair.to.bytes.begin() + 219, pair.to.bytes.begin() + 249,
                         pair.from.bytes.begin() + 150));
  EXPECT_EQ(pair.to.bytes[249], 0);
}

TEST(Inline, SourceOverwrittenAfterPost_OldBytesArrive) {
  Pair pair({.rnr_retry = 7});
  uint8_t source[200];
  std::fill(std::begin(source), std::end(source), 0x5a);
  Buffer to(pair.b, 200);
  Request request(IBV_WR_SEND, {reinterpret_cast<uint64_t>(source), sizeof source, 0});
  request.wr.send_flags |= IBV_SEND_INLINE;
  // No receive yet: the request waits while its source changes.
  post(pair.a, request);
  std::fill(std::begin(source), std::end(source), 0);
  ASSERT_EQ(pair.b.recv(1, to.sge()), 0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(to.bytes, std::vector<uint8_t>(200, 0x5a));
}

TEST(Inline, LongerThanMaxInline_PostFails) {
  Pair pair;
  std::vector<uint8_t> source(257);
  Request request(IBV_WR_SEND, {reinterpret_cast<uint64_t>(source.data()), 257, 0});
  request.wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(request.post(pair.a.qp()), EINVAL);
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.a.qp());
  ibv_wr_start(qp);
  ibv_wr_send(qp);
  ibv_wr_set_inline_data(qp, source.data(), source.size());
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

void add_write(ibv_qp_ex* qp, uint64_t wr_id) {
  qp->wr_id = wr_id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, 0, 0);
}

// ibv_wr_start() and ibv_wr_complete() enclose a section of one QP (ibv_wr_post(3)).
TEST(WorkRequests, OfTwoQpsBuiltTogether_EachQpCompletesItsOwn) {
  Pair first, second;
  ibv_qp_ex* one = ibv_qp_to_qp_ex(first.a.qp());
  ibv_qp_ex* two = ibv_qp_to_qp_ex(second.a.qp());
  ibv_wr_start(one);
  add_write(one, 1);
  add_write(one, 2);
  ibv_wr_start(two);
  add_write(two, 3);
  EXPECT_EQ(ibv_wr_complete(one), 0);
  EXPECT_EQ(ibv_wr_complete(two), 0);
  for (uint64_t id : {1, 2}) EXPECT_EQ(first.a.wait().wr_id, id);
  EXPECT_EQ(second.a.wait().wr_id, 3U);
}

TEST(WorkRequests, ReadOverUnreliableConnection_CompleteFails) {
  Pair pair({.type = IBV_QPT_UC}, {.type = IBV_QPT_UC});
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(pair.a.qp());
  ibv_wr_start(qp);
  ibv_wr_rdma_read(qp, 0, 0);
  EXPECT_EQ(ibv_wr_complete(qp), EINVAL);
}

// NCCL's clear-to-send slots: the receiver polls the last word and then reads the rest. The message
// is long, so that a word which arrives too early is noticed.
TEST(Write, LastWordPolled_AllEarlierBytesHaveArrived) {
  constexpr size_t kWords = 1 << 18;
  constexpr uint64_t kRounds = 100;
  Buffers pair(kWords * 8);
  auto* source = reinterpret_cast<uint64_t*>(pair.from.bytes.data());
  auto* words = reinterpret_cast<uint64_t*>(pair.to.bytes.data());
  std::atomic<uint64_t> seen{0};
  std::atomic<uint64_t> early{0};
  std::thread reader([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      while (__atomic_load_n(&words[kWords - 1], __ATOMIC_ACQUIRE) != round) {
        std::this_thread::yield();
      }
      if (words[0] != round || words[kWords - 2] != round) early.fetch_add(1);
      seen.store(round);
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    source[0] = source[kWords - 2] = source[kWords - 1] = round;
    ASSERT_EQ(status_of(pair.a, pair.request()), IBV_WC_SUCCESS);
    while (seen.load() != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(early.load(), 0u);
}

TEST(Unsignaled, Success_NoCompletionUntilASignaledOne) {
  Buffers pair(8, {.send_wr = 4});
  Request request = pair.request();
  request.wr.send_flags = 0;
  for (int i = 0; i < 3; ++i) post(pair.a, request);
  EXPECT_TRUE(pair.a.quiet());
  request.wr.send_flags = IBV_SEND_SIGNALED;
  request.wr.wr_id = 9;
  post(pair.a, request);
  EXPECT_EQ(request.post(pair.a.qp()), ENOMEM);
  EXPECT_EQ(pair.a.wait().wr_id, 9u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(request.post(pair.a.qp()), 0) << i;
}

TEST(UnreliableConnection, NoReceiver_SucceedsSilently) {
  Buffers pair(8, {.type = IBV_QPT_UC}, {.type = IBV_QPT_UC});
  pair.from.fill(4);
  Request request = pair.request();
  EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
  EXPECT_EQ(pair.to.bytes, pair.from.bytes);
  pair.b.drop_qp();
  EXPECT_EQ(status_of(pair.a, request), IBV_WC_SUCCESS);
}

TEST(Loopback, QpConnectedToItself_WritesAndReceives) {
  Endpoint self;
  self.connect(self.address());
  Buffer from(self, 32);
  Buffer to(self, 32);
  from.fill(8);
  ASSERT_EQ(self.recv_empty(5), 0);
  post(self, Request(IBV_WR_RDMA_WRITE_WITH_IMM, from.sge(), to));
  uint64_t ids = self.wait().wr_id + self.wait().wr_id;
  EXPECT_EQ(ids, 6u);
  EXPECT_EQ(to.bytes, from.bytes);
}

}  // namespace
}  // namespace softhca_test

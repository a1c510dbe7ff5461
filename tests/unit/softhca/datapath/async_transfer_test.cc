// Transfers of GPU memory within one process, over a fake CUDA driver whose device memory the CPU
// cannot access.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <tuple>

#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

// Two reads that are posted together, so that both would be in progress.
TEST(Gpu, ReadsBeyondTheDepthOfOneEnd_WaitOrAreRefused) {
  for (auto [sent, answered, second] :
       {std::tuple(2, 2, IBV_WC_SUCCESS), std::tuple(1, 1, IBV_WC_SUCCESS),
        std::tuple(2, 1, IBV_WC_REM_INV_REQ_ERR)}) {
    Pair pair({.max_rd_atomic = static_cast<uint8_t>(sent)},
              {.max_dest_rd_atomic = static_cast<uint8_t>(answered)});
    Memory into(pair.a, 0, 64);
    Memory from(pair.b, 0, 64);
    Request last(IBV_WR_RDMA_READ, into.sge(32, 32), from, 32);
    Request first(IBV_WR_RDMA_READ, into.sge(0, 32), from);
    first.wr.next = &last.wr;
    last.wr.sg_list = &last.sge;
    EXPECT_EQ(status_of(pair.a, first), IBV_WC_SUCCESS);
    EXPECT_EQ(pair.a.wait().status, second) << sent << " " << answered;
  }
}

TEST(Gpu, ReadBeyondTheDepth_TargetConnectedAgainMeanwhile_IsAnswered) {
  constexpr size_t kPacket = 32;
  Pair pair({.timeout = 20}, {.max_dest_rd_atomic = 1});
  Memory into(pair.a, 0, kPacket);
  Memory from(pair.b, 0, kPacket);
  const Request read(IBV_WR_RDMA_READ, into.sge(), from);
  hooks().set_copies_held(1);
  for (int i = 0; i < 2; ++i) post(pair.a, read);
  std::thread copies([&] {
    while (pair.b.state() != IBV_QPS_RESET) std::this_thread::yield();
    hooks().set_copies_held(0);
  });
  ASSERT_EQ(pair.b.to_state(IBV_QPS_RESET), 0) << "it waits for the first read";
  copies.join();
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  pair.b.options().rq_psn = 1;
  pair.b.connect(pair.a.address());
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
}

// The receiver cannot know: it waits for the rest of the message until its own QP stops.
TEST(Gpu, RequesterResetDuringSends_ReceivesStayPosted) {
  Pair pair;
  Memory from(pair.a, 0, 64);
  Memory to(pair.b, 0, 64);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(pair.b.recv(id, to.sge()), 0);
  hooks().set_copies_held(1);
  for (int i = 0; i < 2; ++i) post(pair.a, Request(IBV_WR_SEND, from.sge()));
  std::thread copies([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    hooks().set_copies_held(0);
  });
  ASSERT_EQ(pair.a.to_state(IBV_QPS_RESET), 0);
  copies.join();
  EXPECT_TRUE(pair.b.quiet());
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(pair.b.wait().wr_id, id);
}

TEST(Gpu, SendIntoFullCq_IsNotAcknowledged) {
  Pair pair({}, {.cqe = 1});
  Memory from(pair.a, 0, 64);
  Memory to(pair.b, 0, 64);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(pair.b.recv(id, to.sge()), 0);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, from.sge())), IBV_WC_SUCCESS);
  EXPECT_EQ(status_of(pair.a, Request(IBV_WR_SEND, from.sge())), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

// An answer that stops the remote QP must not overtake what is in progress.
TEST(Gpu, RefusedBehindOneInProgress_TheFirstOneCompletes) {
  GpuBuffers pair(1, 4096, {}, {.path_mtu = IBV_MTU_256});
  for (uint64_t id : {1, 2}) ASSERT_EQ(pair.b.recv_empty(id), 0);
  hooks().set_copies_held(1);
  Request first(IBV_WR_RDMA_WRITE_WITH_IMM, pair.from.sge(0, 256), pair.to);
  Request too_long(IBV_WR_RDMA_WRITE_WITH_IMM, pair.from.sge(0, 257), pair.to);
  post(pair.a, first);
  post(pair.a, too_long);
  EXPECT_TRUE(pair.a.quiet());
  hooks().set_copies_held(0);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Gpu, CopiesHeldBack_PostReturnsAndNothingCompletes) {
  GpuBuffers pair(1, 4096);
  Memory flag(pair.b, -1, 8);
  Memory flag_source(pair.a, -1, 8);
  pair.from.fill(7);
  flag_source.fill(7);
  ASSERT_EQ(pair.b.recv_empty(5), 0);
  hooks().set_copies_held(1);
  for (uint64_t i = 0; i < 8; ++i) {
    Request request(IBV_WR_RDMA_WRITE, pair.from.sge(i * 512, 512), pair.to, i * 512);
    request.wr.wr_id = i;
    post(pair.a, request);
  }
  Request host(IBV_WR_RDMA_WRITE, flag_source.sge(), flag);
  host.wr.wr_id = 8;
  post(pair.a, host);
  Request last(IBV_WR_RDMA_WRITE_WITH_IMM, {});
  last.wr.wr_id = 9;
  post(pair.a, last);
  EXPECT_TRUE(pair.a.quiet());
  EXPECT_TRUE(pair.b.quiet());
  EXPECT_FALSE(flag.holds(7)) << "a host write overtook GPU copies";
  hooks().set_copies_held(0);
  for (uint64_t i = 0; i < 10; ++i) {
    ibv_wc wc = pair.a.wait();
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
  }
  EXPECT_EQ(pair.b.wait().wr_id, 5u);
  EXPECT_TRUE(pair.to.holds(7));
  EXPECT_TRUE(flag.holds(7));
}

TEST(Gpu, RequestFailsBehindOneInProgress_BothCompleteInOrder) {
  GpuBuffers pair(1, 4096);
  pair.from.fill(7);
  hooks().set_copies_held(1);
  Request copy = pair.request();
  copy.wr.wr_id = 1;
  post(pair.a, copy);
  ibv_sge wrong_key = pair.from.sge();
  wrong_key.lkey ^= 1;
  Request wrong(IBV_WR_RDMA_WRITE, wrong_key, pair.to);
  wrong.wr.wr_id = 2;
  post(pair.a, wrong);
  copy.wr.wr_id = 3;
  post(pair.a, copy);
  EXPECT_TRUE(pair.a.quiet());
  hooks().set_copies_held(0);
  ibv_wc_status expected[] = {IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR};
  for (uint64_t i = 0; i < 3; ++i) {
    ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.wr_id, i + 1);
    EXPECT_EQ(wc.status, expected[i]);
  }
  EXPECT_TRUE(pair.to.holds(7));
}

TEST(Gpu, RemoteErrorBehindOneInProgress_DoesNotFlushReceivesBefore) {
  GpuBuffers pair(1, 4096);
  pair.from.fill(9);
  ASSERT_EQ(pair.b.recv_empty(1), 0);
  ASSERT_EQ(pair.b.recv_empty(2), 0);
  hooks().set_copies_held(1);
  post(pair.a, pair.request(IBV_WR_RDMA_WRITE_WITH_IMM));
  post(pair.a, Request(IBV_WR_RDMA_WRITE, pair.from.sge(), pair.to.address(), pair.to.rkey() ^ 1));
  EXPECT_TRUE(pair.b.quiet())
      << "the second receive must not be flushed before the first is filled";
  hooks().set_copies_held(0);
  ibv_wc first = pair.b.wait();
  EXPECT_EQ(first.wr_id, 1u);
  EXPECT_EQ(first.status, IBV_WC_SUCCESS);
  ibv_wc second = pair.b.wait();
  EXPECT_EQ(second.wr_id, 2u);
  EXPECT_EQ(second.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Gpu, KernelRunning_WritesStillArrive) {
  GpuBuffers pair(1, 65536);
  pair.from.fill(1);
  hooks().set_kernel_running(1);
  EXPECT_EQ(status_of(pair.a, pair.request()), IBV_WC_SUCCESS);
  hooks().set_kernel_running(0);
  EXPECT_TRUE(pair.to.holds(1));
}

TEST(Gpu, TargetMovedToErrorWhileCopying_WaitsForTheCopy) {
  GpuBuffers pair(1, 1 << 20);
  pair.from.fill(1);
  hooks().set_copy_delay_us(20000);
  post(pair.a, pair.request());
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  EXPECT_TRUE(pair.to.holds(1)) << "a copy completed after the QP was in ERROR";
  hooks().set_copy_delay_us(0);
  pair.a.wait();
}

// When ibv_modify_qp returns, what was received and what was not is settled, in order.
TEST(Gpu, TargetMovedToErrorWhileCopying_ReceivesAreFlushedInOrder) {
  GpuBuffers pair(1, 1 << 20);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(pair.b.recv_empty(id), 0);
  hooks().set_copy_delay_us(20000);
  for (int i = 0; i < 2; ++i) {
    post(pair.a, pair.request(IBV_WR_RDMA_WRITE_WITH_IMM));
  }
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  ibv_wc wc[4] = {};
  ASSERT_EQ(ibv_poll_cq(pair.b.cq(), 4, wc), 3);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wc[i].wr_id, i + 1);
    EXPECT_EQ(wc[i].status, IBV_WC_WR_FLUSH_ERR);
  }
  hooks().set_copy_delay_us(0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR) << "what is flushed is not acknowledged";
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST(Gpu, QpDestroyedWhileCopying_NothingBreaks) {
  GpuBuffers pair(1, 1 << 20);
  hooks().set_copy_delay_us(5000);
  for (int i = 0; i < 8; ++i) {
    post(pair.a, pair.request());
  }
  pair.a.drop_qp();
  pair.b.drop_qp();
  hooks().set_copy_delay_us(0);
}

TEST(Gpu, ContextFails_ErrorCompletion) {
  GpuBuffers pair(0, 65536);
  hooks().set_copies_held(1);
  post(pair.a, pair.request());
  hooks().fail_context(0, 700);
  hooks().set_copies_held(0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_QP_OP_ERR);
}

}  // namespace
}  // namespace softhca_test

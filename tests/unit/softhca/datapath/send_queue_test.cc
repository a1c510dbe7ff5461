// Requests whose acknowledgement is lost or late.
#include "softhca/datapath/send_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/memory.h"

namespace softhca_test {
namespace {

using Clock = std::chrono::steady_clock;
using Acknowledgement = Configured;

constexpr const char* kLost = R"({"faults": [
    {"kind": "ack_lost", "device": "softhca0", "after_ops": 1}]})";

TEST_F(Acknowledgement, Lost_DataArrivesAndRequestFails) {
  use(kLost);
  Buffers pair(64, {}, {.device = 1});
  Buffer received(pair.b, 64);
  pair.from.fill(1);
  ASSERT_EQ(pair.b.recv(5, received.sge()), 0);
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS) << "before the fault";
  post(pair.a, Request(IBV_WR_SEND, pair.from.sge()));
  post(pair.a, pair.request());
  ibv_wc wc = pair.b.wait();
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(received.bytes, pair.from.bytes);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(pair.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  // The other device's acknowledgements arrive.
  Pair other({.device = 1}, {});
  EXPECT_EQ(write_nothing(other.a), IBV_WC_SUCCESS);
}

// A receiver that recovers must not wait for a requester that waits for its acknowledgement.
TEST_F(Acknowledgement, LostForGpuMemory_ReceiverStopsAtOnceAndHasAllImmediates) {
  use(R"({"faults": [{"kind": "ack_lost", "device": "softhca0"}]})");
  GpuBuffers pair(0, 4096, {.timeout = 0}, {.device = 1});
  for (uint64_t id : {1, 2, 3}) {
    ASSERT_EQ(pair.b.recv_empty(id), 0);
    post(pair.a, pair.request(IBV_WR_RDMA_WRITE_WITH_IMM));
  }
  for (uint64_t id : {1, 2, 3}) EXPECT_EQ(pair.b.wait().wr_id, id);
  ASSERT_EQ(pair.b.to_state(IBV_QPS_ERR), 0);
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Acknowledgement, LostForGpuMemory_WhatIsPostedWhileTheEngineSleepsArrives) {
  use(R"({"faults": [{"kind": "ack_lost", "device": "softhca0"}]})");
  GpuBuffers pair(0, 4096, {.timeout = 0}, {.device = 1});
  for (uint64_t id : {1, 2}) {
    ASSERT_EQ(pair.b.recv_empty(id), 0);
    post(pair.a, pair.request(IBV_WR_RDMA_WRITE_WITH_IMM));
    EXPECT_EQ(pair.b.wait().wr_id, id);
    // The engine has nothing left but to wait for an acknowledgement that never comes.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
}

TEST_F(Acknowledgement, LostWithoutTimeout_WaitsUntilTheQpStops) {
  use(kLost);
  Pair pair({.timeout = 0}, {.device = 1});
  for (int i = 0; i < 2; ++i) post(pair.a, Request(IBV_WR_RDMA_WRITE, {}));
  EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  EXPECT_TRUE(pair.a.quiet());
  ASSERT_EQ(pair.a.to_state(IBV_QPS_ERR), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Acknowledgement, Late_CompletesLaterAndInOrder) {
  use(R"({"faults": [
      {"kind": "ack_lost", "device": "softhca0", "late_us": 30000, "count": 1}]})");
  Pair pair({.timeout = 18}, {.device = 1});
  auto start = Clock::now();
  for (uint64_t i = 1; i <= 2; ++i) {
    Request request(IBV_WR_RDMA_WRITE, {});
    request.wr.wr_id = i;
    post(pair.a, request);
  }
  for (uint64_t i = 1; i <= 2; ++i) {
    ibv_wc wc = pair.a.wait();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, i);
    EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(30));
  }
}

// The engine starts the request, when the link is free, and has nothing else to wake up for.
TEST_F(Acknowledgement, LateBehindALink_CompletesAfterBoth) {
  use(R"({"devices": [{"name": "softhca0", "latency_us": 20000}, {"name": "softhca1"}],
      "faults": [{"kind": "ack_lost", "device": "softhca0", "late_us": 30000, "count": 1}]})");
  Pair pair({.timeout = 18}, {.device = 1});
  auto start = Clock::now();
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(50));
}

TEST_F(Acknowledgement, LaterThanAllRetries_IsLost) {
  use(R"({"faults": [
      {"kind": "ack_lost", "device": "softhca0", "late_us": 60000000}]})");
  Pair pair({}, {.device = 1});
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Acknowledgement, OfFetchedData_IsTheDataItself) {
  use(R"({"faults": [{"kind": "ack_lost", "device": "softhca0"}]})");
  Buffers pair(8, {}, {.device = 1});
  EXPECT_EQ(status_of(pair.a, pair.request(IBV_WR_RDMA_READ)), IBV_WC_SUCCESS);
}

// As where a switch has a smaller MTU than the ports.
TEST_F(Acknowledgement, LargePacketsAreLost_RequestsFailWhosePathMtuLetsThemHaveSuch) {
  use(R"({"faults": [{"kind": "packets_lost", "device": "softhca0", "at_s": 0,
      "from_bytes": 1025}]})");
  for (const auto& [mtu, status] :
       {std::pair(IBV_MTU_1024, IBV_WC_SUCCESS), std::pair(IBV_MTU_2048, IBV_WC_RETRY_EXC_ERR)}) {
    Buffers pair(2048, {.path_mtu = mtu}, {.device = 1, .path_mtu = mtu});
    EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
    EXPECT_EQ(status_of(pair.a, pair.request()), status);
  }
}

TEST_F(Acknowledgement, AllPacketsAreLostForATime_RequestArrivesOnceTheyAreNot) {
  use(R"({"faults": [{"kind": "packets_lost", "device": "softhca0", "at_s": 0, "for_ms": 50}]})");
  Pair pair({.timeout = 18}, {.device = 1});
  EXPECT_EQ(write_nothing(pair.b), IBV_WC_SUCCESS) << "the other direction";
  EXPECT_EQ(write_nothing(pair.a), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace softhca_test

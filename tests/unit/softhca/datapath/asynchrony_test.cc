// Requests that complete later than ibv_post_send returns, and registrations that outlive their
// pages.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

constexpr int kRuns = 100;

using Reorder = Configured;
constexpr const char* kReorder = R"({"reorder_us": 300})";

TEST_F(Reorder, RequestsOfTwoQps_OvertakeEachOther) {
  use(kReorder);
  Pair first, second;
  int overtaken = 0;
  for (int i = 0; i < kRuns; ++i) {
    post(first.a, Request(IBV_WR_RDMA_WRITE, {}));
    EXPECT_EQ(write_nothing(second.a), IBV_WC_SUCCESS);
    ibv_wc wc = {};
    if (ibv_poll_cq(first.a.cq(), 1, &wc) == 1) continue;
    ++overtaken;
    EXPECT_EQ(first.a.wait().status, IBV_WC_SUCCESS);
  }
  EXPECT_GT(overtaken, 0);
  EXPECT_LT(overtaken, kRuns);
}

TEST_F(Reorder, RequestsOfOneQp_KeepTheirOrder) {
  use(kReorder);
  Pair pair;
  Request request(IBV_WR_RDMA_WRITE, {});
  for (request.wr.wr_id = 0; request.wr.wr_id < 50; ++request.wr.wr_id) post(pair.a, request);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(pair.a.wait().wr_id, i);
}

#ifndef __SANITIZE_THREAD__  // it has the race that a program must not have
TEST_F(Reorder, SourceChangedBeforeTheCompletion_TheTargetHasTheNewBytes) {
  use(kReorder);
  Buffers pair(4096);
  bool seen = false;
  for (int i = 0; i < kRuns && !seen; ++i) {
    pair.from.fill(1);
    post(pair.a, pair.request());
    pair.from.fill(2);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
    seen = pair.to.bytes == pair.from.bytes;
  }
  EXPECT_TRUE(seen);
}
#endif

constexpr uint32_t kBytes = 16384;

void* map_at(void* address) {
  return mmap(address, kBytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | (address == nullptr ? 0 : MAP_FIXED), -1, 0);
}

struct Loss {
  const char* how;
  void (*lose)(void* pages);
};

constexpr Loss kLosses[] = {
    {"mapped over", [](void* pages) { map_at(pages); }},
    {"given back in part", [](void* pages) { madvise(pages, 4096, MADV_DONTNEED); }},
};

// The program's call may return just before the loss is noticed, so that the write is repeated.
TEST_F(Configured, StaleRegistration_FailsUntilItIsMadeAnew) {
  use(R"({"stale_registrations_fail": true})");
  for (const Loss& loss : kLosses) {
    SCOPED_TRACE(loss.how);
    Pair pair;
    Buffer from(pair.a, kBytes);
    void* pages = map_at(nullptr);
    MrPtr mr = pair.b.reg(pages, kBytes);
    auto write = [&](Pair& by, const Buffer& source, uint32_t rkey) {
      return status_of(
          by.a, Request(IBV_WR_RDMA_WRITE, source.sge(), reinterpret_cast<uint64_t>(pages), rkey));
    };
    EXPECT_EQ(write(pair, from, mr->rkey), IBV_WC_SUCCESS);
    loss.lose(pages);
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (int i = 0; i < kRuns && status == IBV_WC_SUCCESS; ++i, usleep(10000)) {
      status = write(pair, from, mr->rkey);
    }
    EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
    Pair other;
    Buffer source(other.a, kBytes);
    MrPtr again = other.b.reg(pages, kBytes);
    EXPECT_EQ(write(other, source, again->rkey), IBV_WC_SUCCESS);
  }
}

}  // namespace
}  // namespace softhca_test

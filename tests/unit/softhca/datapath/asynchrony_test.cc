// Requests that complete later than ibv_post_send returns.
#include <gtest/gtest.h>

#include "tests/unit/softhca/configured.h"
#include "tests/unit/softhca/endpoint.h"

namespace softhca_test {
namespace {

constexpr int kRuns = 100;

class Reorder : public Configured {
 protected:
  Reorder() { use(R"({"reorder_us": 300})"); }
};

TEST_F(Reorder, RequestsOfTwoQps_OvertakeEachOther) {
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
  Pair pair;
  Request request(IBV_WR_RDMA_WRITE, {});
  for (request.wr.wr_id = 0; request.wr.wr_id < 50; ++request.wr.wr_id) post(pair.a, request);
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(pair.a.wait().wr_id, i);
}

TEST_F(Reorder, SourceChangedBeforeTheCompletion_TheTargetHasTheNewBytes) {
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

}  // namespace
}  // namespace softhca_test

#include "tools/perf/ring_plan.h"

#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
TEST(PartOf, UnevenCount_CoversAllWithoutOverlap) {
  for (size_t count : {0, 1, 3, 31, 32, 33, 1000}) {
    size_t next = 5;
    for (size_t i = 0; i < 4; ++i) {
      ElementRange part = part_of({5, count}, 4, i, 1);
      EXPECT_EQ(part.first, next);
      next += part.count;
    }
    EXPECT_EQ(next, 5 + count);
  }
}

TEST(PartOf, Grain_AlignsEveryBorder) {
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(part_of({0, 1000}, 4, i, 32).first % 32, 0u);
  EXPECT_EQ(part_of({0, 1000}, 4, 1, 32).first, 256u);
}

// That each rank gets the sum is checked where rings run (tests/conformance/perf_test.cc).
TEST(RingPlan, FewElements_LeavesOutEmptyMessages) {
  RingPlan plan = make_ring_plan({0, 1}, 2, 4, 64);
  EXPECT_EQ(plan.own_sends, 0u);
  EXPECT_FALSE(plan.recv.empty());
  for (const Slice& slice : plan.recv) EXPECT_GT(slice.count, 0u);
}

TEST(RingPlan, SegmentAboveASlice_IsCutIntoSlices) {
  const RingPlan plan = make_ring_plan({10, 20}, 0, 2, 4);  // two segments of ten elements
  EXPECT_EQ(plan.own_sends, 3u);
  ASSERT_EQ(plan.recv.size(), 6u);
  EXPECT_EQ(plan.send.size(), 6u);
  const size_t firsts[] = {20, 24, 28, 10, 14, 18};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(plan.recv[i].first, firsts[i]);
    EXPECT_EQ(plan.recv[i].count, i % 3 == 2 ? 2u : 4u);
    EXPECT_EQ(plan.recv[i].reduce, i < 3);
  }
}
}  // namespace
}  // namespace gdr::tools

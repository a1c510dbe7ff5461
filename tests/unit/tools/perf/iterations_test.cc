#include "tools/perf/iterations.h"

#include <gtest/gtest.h>

namespace gdr::tools {
namespace {

TEST(NextIterations, LastWasLongEnough_ThereAreNoMore) {
  EXPECT_EQ(next_iterations(kFirstIterations, 4, 4, kMostSamples), 0u);
  EXPECT_EQ(next_iterations(kFirstIterations, 2, 4, kMostSamples), 0u);
  EXPECT_EQ(next_iterations(kFirstIterations, 60, 4, kMostSamples), 0u);
}

TEST(NextIterations, LastWasTooShort_TheNextTakesTheWantedTime) {
  EXPECT_EQ(next_iterations(100, 1, 4, kMostSamples), 400u);
  EXPECT_EQ(next_iterations(100, 1.9, 4, kMostSamples), 210u);
}

TEST(NextIterations, LastWasMuchTooShort_TheNextHasTenTimesAsMany) {
  EXPECT_EQ(next_iterations(16, 1e-6, 4, kMostSamples), 160u);
  EXPECT_EQ(next_iterations(16, 0, 4, kMostSamples), 160u) << "the clock has not moved";
}

TEST(NextIterations, FastestPath_EndsWithTheMost) {
  size_t last = kFirstIterations;
  int runs = 1;
  for (size_t next = last; (next = next_iterations(last, 0, 4, kMostSamples)) != 0; ++runs) {
    ASSERT_GT(next, last);
    last = next;
  }
  EXPECT_EQ(last, kMostSamples);
  EXPECT_LE(runs, 7);
}

}  // namespace
}  // namespace gdr::tools

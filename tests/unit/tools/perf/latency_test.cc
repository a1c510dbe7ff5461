#include <gtest/gtest.h>

#include "tools/perf/measurements.h"

namespace gdr::tools {
namespace {
LatencySummary summary(std::vector<double> samples) { return summarize(samples); }

TEST(Summarize, Unsorted_GivesTheRightFigures) {
  LatencySummary out = summary({4, 2, 4, 5, 4, 9, 5, 7});
  EXPECT_EQ(out.min, 2);
  EXPECT_EQ(out.max, 9);
  EXPECT_EQ(out.typical, 4.5);
  EXPECT_EQ(out.average, 5);
  EXPECT_DOUBLE_EQ(out.stdev, 2);
}

TEST(Summarize, Thousand_TakesTheRankedPercentiles) {
  std::vector<double> samples;
  for (int i = 1000; i > 0; --i) samples.push_back(i);
  LatencySummary out = summarize(samples);
  EXPECT_EQ(out.p99, 990);
  EXPECT_EQ(out.p999, 999);
}

TEST(Summarize, NoneOrOneSample_IsEveryFigure) {
  EXPECT_EQ(summary({}).max, 0);
  EXPECT_EQ(summary({3}).typical, 3);
  EXPECT_EQ(summary({3}).p99, 3);
  EXPECT_EQ(summary({3}).stdev, 0);
}
}  // namespace
}  // namespace gdr::tools

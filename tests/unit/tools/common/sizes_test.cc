#include "tools/common/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace gdr::tools {
namespace {
using testing::ElementsAre;

TEST(SizeSweep, Sizes_GrowByTheFactorUpToTheEnd) {
  EXPECT_THAT(*size_sweep(8, 64, 2), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(*size_sweep(10, 999, 10), ElementsAre(10, 100));
  EXPECT_THAT(*size_sweep(0, 4, 2), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(*size_sweep(5, 5, 2), ElementsAre(5));
}

TEST(SizeSweep, EndNearTheLimit_DoesNotOverflow) {
  size_t most = std::numeric_limits<size_t>::max();
  EXPECT_EQ(size_sweep(1, most, 2)->size(), 64u);
}

TEST(SizeSweep, EndBelowBeginOrFactorOne_IsRejected) {
  EXPECT_FALSE(size_sweep(8, 4, 2));
  EXPECT_FALSE(size_sweep(8, 16, 1));
}

TEST(DefaultIterations, LargeAndSmallMessages_StayInTheBounds) {
  EXPECT_EQ(default_iterations(0, 1000, 2, 50), 50u);
  EXPECT_EQ(default_iterations(100, 1000, 2, 50), 10u);
  EXPECT_EQ(default_iterations(5000, 1000, 2, 50), 2u);
}

TEST(NextIterations, LastRun_DecidesWhetherThereAreMore) {
  EXPECT_EQ(next_iterations(16, 4, 4, kMostSamples), 0u);
  EXPECT_EQ(next_iterations(16, 2, 4, kMostSamples), 0u) << "half of the time is long enough";
  EXPECT_EQ(next_iterations(100, 1, 4, kMostSamples), 400u);
  EXPECT_EQ(next_iterations(100, 1.9, 4, kMostSamples), 210u);
  EXPECT_EQ(next_iterations(16, 1e-6, 4, kMostSamples), 160u) << "ten times as many at most";
  EXPECT_EQ(next_iterations(16, 0, 4, kMostSamples), 160u) << "the clock has not moved";
  EXPECT_EQ(next_iterations(kMostSamples / 2, 0, 4, kMostSamples), kMostSamples);
  EXPECT_EQ(next_iterations(kMostSamples, 0, 4, kMostSamples), 0u);
}

TEST(HumanBytes, WholeAndBrokenUnits_AreShort) {
  EXPECT_EQ(human_bytes(8), "8 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(64u << 20), "64 MiB");
}
}  // namespace
}  // namespace gdr::tools

#include "tools/perf/ring_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace gdr::tools {
namespace {
constexpr int kRanks = 5;
constexpr size_t kCount = 1000;

std::vector<float> summed(uint64_t seed) {
  std::vector<float> sum(kCount);
  std::vector<float> one(kCount);
  fill_elements(sum.data(), kCount, seed, 0);
  for (int rank = 1; rank < kRanks; ++rank) {
    fill_elements(one.data(), kCount, seed, rank);
    add_elements(sum.data(), one.data(), sum.data(), kCount);
  }
  return sum;
}

TEST(Elements, SumOverAllRanks_IsFoundRight) {
  EXPECT_EQ(count_wrong_elements(summed(3).data(), kCount, 3, kRanks), 0u);
}

TEST(Elements, OneElementChanged_IsCounted) {
  std::vector<float> sum = summed(3);
  sum[500] += 1;
  EXPECT_EQ(count_wrong_elements(sum.data(), kCount, 3, kRanks), 1u);
}

TEST(Elements, OtherSeedOrMissingRank_IsMostlyWrong) {
  const std::vector<float> sum = summed(3);
  EXPECT_GT(count_wrong_elements(sum.data(), kCount, 4, kRanks), kCount / 2);
  EXPECT_GT(count_wrong_elements(sum.data(), kCount, 3, kRanks + 1), kCount / 2);
}
}  // namespace
}  // namespace gdr::tools

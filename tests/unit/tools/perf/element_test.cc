#include "tools/perf/element.h"

#include <gtest/gtest.h>

#include <vector>

namespace gdr::tools {
namespace {
constexpr int kRanks = 5;
constexpr size_t kCount = 1000;

class EveryElement : public testing::TestWithParam<const char*> {
 protected:
  const Element& element() { return **find_element(GetParam()); }
  std::vector<char> summed(uint64_t seed) {
    std::vector<char> sum(kCount * element().bytes);
    std::vector<char> one(sum.size());
    element().fill(sum.data(), kCount, seed, 0);
    for (int rank = 1; rank < kRanks; ++rank) {
      element().fill(one.data(), kCount, seed, rank);
      element().add(sum.data(), one.data(), sum.data(), kCount);
    }
    return sum;
  }
};

TEST_P(EveryElement, SumOverAllRanks_IsFoundRight) {
  EXPECT_EQ(element().count_wrong(summed(3).data(), kCount, 3, kRanks), 0u);
}

TEST_P(EveryElement, OneElementChanged_IsCounted) {
  std::vector<char> sum = summed(3);
  sum[500 * element().bytes] ^= 1;
  EXPECT_EQ(element().count_wrong(sum.data(), kCount, 3, kRanks), 1u);
}

TEST_P(EveryElement, OtherSeedOrMissingRank_IsMostlyWrong) {
  std::vector<char> sum = summed(3);
  EXPECT_GT(element().count_wrong(sum.data(), kCount, 4, kRanks), kCount / 2);
  EXPECT_GT(element().count_wrong(sum.data(), kCount, 3, kRanks + 1), kCount / 2);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryElement, testing::Values("float32", "float64", "int32"));

TEST(FindElement, UnknownName_IsRefused) { EXPECT_FALSE(find_element("bfloat16")); }
}  // namespace
}  // namespace gdr::tools

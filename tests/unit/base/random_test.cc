#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace gdr {
namespace {

TEST(RandomBits, EveryCall_GivesOthersInBothHalves) {
  std::set<uint64_t> all;
  uint64_t ones = 0;
  uint64_t zeros = 0;
  constexpr size_t kDraws = 200;  // a bit that is the same in all of them: 1 in 2^194
  for (size_t i = 0; i < kDraws; ++i) {
    const uint64_t bits = random_bits();
    all.insert(bits);
    ones |= bits;
    zeros |= ~bits;
  }
  EXPECT_EQ(all.size(), kDraws);
  EXPECT_EQ(ones, ~uint64_t{0});
  EXPECT_EQ(zeros, ~uint64_t{0});
}

}  // namespace
}  // namespace gdr

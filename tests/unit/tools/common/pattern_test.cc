#include "tools/common/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace gdr::tools {
namespace {
TEST(Pattern, FilledData_Matches) {
  for (size_t bytes : {0, 1, 7, 8, 9, 1000}) {
    std::vector<uint8_t> data(bytes);
    Pattern(1, 2, 3).fill(data.data(), bytes);
    EXPECT_EQ(Pattern(1, 2, 3).first_mismatch(data.data(), bytes), bytes);
  }
}

TEST(Pattern, AnyByteChanged_IsFoundAtItsPosition) {
  std::vector<uint8_t> data(100);
  for (size_t at = 0; at < data.size(); ++at) {
    Pattern(1, 2, 3).fill(data.data(), data.size());
    data[at] ^= 0x10;
    EXPECT_EQ(Pattern(1, 2, 3).first_mismatch(data.data(), data.size()), at);
  }
}

TEST(Pattern, OtherSeedStreamOrMessage_DiffersSoon) {
  std::vector<uint8_t> data(64);
  Pattern(1, 2, 3).fill(data.data(), data.size());
  for (Pattern other : {Pattern(2, 2, 3), Pattern(1, 3, 3), Pattern(1, 2, 4), Pattern(3, 2, 1)}) {
    EXPECT_LT(other.first_mismatch(data.data(), data.size()), 8u);
  }
}

TEST(Pattern, ShiftedData_Differs) {
  std::vector<uint8_t> data(64);
  Pattern(1, 2, 3).fill(data.data(), data.size());
  for (size_t shift : {1, 4, 8, 16}) {
    EXPECT_LT(Pattern(1, 2, 3).first_mismatch(data.data() + shift, data.size() - shift), 8u);
  }
}

TEST(Random, SameSeed_SameSequence) {
  Random one(7);
  Random two(7);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one.next(), two.next());
  EXPECT_NE(Random(7).next(), Random(8).next());
}
}  // namespace
}  // namespace gdr::tools

#include "tools/perf/rank_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
using testing::HasSubstr;

TEST(MemorySpec, OneOrTwoValues_AlternateOverTheRanks) {
  const MemorySpec host{}, device{true, -1}, third{true, 3};
  auto one = parse_memory_specs("cuda:3");
  ASSERT_TRUE(one);
  for (int rank : {0, 5}) EXPECT_EQ(spec_of(rank, *one), third);
  auto two = parse_memory_specs("host,cuda");
  ASSERT_TRUE(two);
  for (int rank : {0, 1, 2}) EXPECT_EQ(spec_of(rank, *two), rank == 1 ? device : host);
}

TEST(MemorySpec, BadValue_IsNamedInTheError) {
  for (const char* bad : {"", "D", "HOST", "cuda:", "cuda:-1", "cuda:-0", "cuda:1x", "cuda: 1",
                          "cuda0", "cuda:99999999999", "host,", ",cuda", "host,cuda,host"}) {
    EXPECT_FALSE(parse_memory_specs(bad)) << bad;
  }
  EXPECT_THAT(parse_memory_specs("cuda:0,gpu").error().text, HasSubstr("\"gpu\""));
}

}  // namespace
}  // namespace gdr::tools

#include "tools/perf/memory_place.h"

#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
constexpr MemoryPlace kHost{};

TEST(MemoryPlace, OneValue_ServesAllRanks) {
  auto places = parse_memory("cuda:3");
  ASSERT_TRUE(places);
  EXPECT_EQ(place_of(0, *places), (MemoryPlace{true, 3}));
  EXPECT_EQ(place_of(5, *places), (MemoryPlace{true, 3}));
}

TEST(MemoryPlace, TwoValues_AreTakenInTurn) {
  auto places = parse_memory("host,cuda");
  ASSERT_TRUE(places);
  EXPECT_EQ(place_of(0, *places), kHost);
  EXPECT_EQ(place_of(1, *places), (MemoryPlace{true, -1}));
  EXPECT_EQ(place_of(2, *places), kHost);
}

class BadMemory : public testing::TestWithParam<const char*> {};

TEST_P(BadMemory, Text_IsRefusedWithTheOption) {
  auto places = parse_memory(GetParam());
  ASSERT_FALSE(places);
  EXPECT_EQ(places.error().text.find("--memory"), 0u) << places.error().text;
}

INSTANTIATE_TEST_SUITE_P(Texts, BadMemory,
                         testing::Values("", "D", "HOST", "cuda:", "cuda:-1", "cuda:-0", "cuda:1x",
                                         "cuda: 1", "cuda0", "cuda:99999999999", "host,", ",cuda",
                                         "host,cuda,host"));

TEST(MemoryPlace, BadSecondValue_IsTheOneNamed) {
  auto places = parse_memory("cuda:0,gpu");
  ASSERT_FALSE(places);
  EXPECT_NE(places.error().text.find("\"gpu\""), std::string::npos) << places.error().text;
}
}  // namespace
}  // namespace gdr::tools

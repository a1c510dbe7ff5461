#include "transport/select/memory_ways.h"

#include <gtest/gtest.h>

#include <string>

namespace gdr {
namespace {

TEST(MemoryWays, Unset_AllAreAllowed) {
  EXPECT_EQ(MemoryWays{}.to_string(), "dmabuf,peermem,staging");
}

TEST(MemoryWays, AnyOrder_IsTheSameChoice) {
  EXPECT_EQ(MemoryWays::parse("staging,dmabuf").value().to_string(), "dmabuf,staging");
  EXPECT_EQ(MemoryWays::parse("peermem").value().to_string(), "peermem");
  EXPECT_EQ(MemoryWays::parse("staging,staging").value().to_string(), "staging");
}

TEST(MemoryWays, OnlyStaging_IsToldApart) {
  EXPECT_TRUE(MemoryWays::parse("staging").value().only_staging());
  EXPECT_FALSE(MemoryWays::parse("dmabuf,staging").value().only_staging());
  EXPECT_FALSE(MemoryWays::parse("dmabuf").value().only_staging());
}

TEST(MemoryWays, UnknownOrMissingName_IsRefusedByName) {
  for (std::string text : {"dma-buf", "dmabuf,", ",staging", "DMABUF", "dmabuf staging", ""}) {
    Result<MemoryWays> ways = MemoryWays::parse(text);
    ASSERT_FALSE(ways) << text;
    EXPECT_NE(ways.error().text.find("neither dmabuf, peermem nor staging"), std::string::npos);
  }
  EXPECT_NE(MemoryWays::parse("dmabuf,gdrcopy").error().text.find("'gdrcopy'"), std::string::npos);
}

TEST(MemoryWays, Names_AreTheFieldsTerms) {
  EXPECT_STREQ(name_of(MemoryWay::kDmaBuf), "dma-buf");
  EXPECT_STREQ(name_of(MemoryWay::kPeermem), "nvidia-peermem");
  EXPECT_STREQ(name_of(MemoryWay::kStaging), "staging");
}

}  // namespace
}  // namespace gdr

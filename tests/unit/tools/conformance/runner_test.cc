#include <gtest/gtest.h>

#include <set>

#include "tools/conformance/case.h"

namespace gdr::tools {
namespace {

TEST(AllCases, Ids_AreUniqueAndWellFormed) {
  std::set<std::string> numbers;
  for (const ConformanceCase& one : all_cases()) {
    const std::string id = one.id;
    EXPECT_TRUE(numbers.insert(id.substr(0, 3)).second) << id;
    EXPECT_EQ(id[0], 'C');
    EXPECT_EQ(id[3], '-');
    EXPECT_GE(one.ranks, 1) << id;
    EXPECT_LT(one.killed_rank, one.ranks) << id;
    EXPECT_FALSE(std::string(one.clause).empty()) << id;
  }
  EXPECT_GE(numbers.size(), 53u);
}
}  // namespace
}  // namespace gdr::tools

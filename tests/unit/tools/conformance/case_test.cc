#include "tools/conformance/case.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gdr::tools {
namespace {
TEST(AllCases, Ids_AreUniqueAndWellFormed) {
  std::set<std::string> ids;
  std::set<std::string> numbers;
  for (const CheckCase& check : all_cases()) {
    std::string id = check.id;
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_TRUE(numbers.insert(id.substr(0, 3)).second) << id;
    EXPECT_EQ(id[0], 'C');
    EXPECT_EQ(id[3], '-');
    EXPECT_GE(check.ranks, 1) << id;
    EXPECT_LT(check.killed_rank, check.ranks) << id;
    EXPECT_FALSE(std::string(check.clause).empty()) << id;
  }
  EXPECT_GE(ids.size(), 40u);
}
}  // namespace
}  // namespace gdr::tools

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "plugin/config/variables.h"

namespace gdr::config {
namespace {

constexpr char kRenew[] = "build/bin/nccl-gdr env --markdown > docs/environment.md";

TEST(Documentation, EnvironmentMd_InTheTree_IsWhatTheTableGives) {
  std::ifstream file(GDR_DOCUMENT);
  std::istringstream wanted(markdown());
  std::string there, line;
  for (int number = 1; std::getline(wanted, line); ++number) {
    ASSERT_TRUE(std::getline(file, there) && there == line)
        << "docs/environment.md is stale from line " << number << ": \"" << there
        << "\" where the table gives \"" << line << "\"\nrenew it by: " << kRenew;
  }
  EXPECT_FALSE(std::getline(file, there)) << "lines too many; renew it by: " << kRenew;
}

TEST(Documentation, Variables_EachRow_IsComplete) {
  std::set<std::string> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name << " is listed twice";
    EXPECT_THAT(variable.name, ::testing::MatchesRegex("(NCCL|GDR_NCCL)_[A-Z0-9_]+"));
    EXPECT_STRNE(variable.group, "") << variable.name;
    EXPECT_FALSE(variable.accepted.empty()) << variable.name;
    EXPECT_FALSE(variable.default_text.empty()) << variable.name;
    EXPECT_GT(std::string(variable.doc).size(), 20u) << variable.name;
    EXPECT_THAT(variable.since, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  }
}

}  // namespace
}  // namespace gdr::config

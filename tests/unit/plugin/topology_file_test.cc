#include "plugin/topology_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace gdr::plugin {
namespace {

std::string content_of(const std::string& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(PublishTopology, Text_IsWhatTheEnvironmentNames) {
  setenv("GDR_TEST_BYSTANDER", "stays", 1);
  std::string xml(200000, 'x');  // more than one write may take
  Result<std::string> name = publish_topology(xml);
  ASSERT_TRUE(name) << name.error().text;
  EXPECT_EQ(getenv("NCCL_TOPO_FILE"), *name);
  EXPECT_EQ(content_of(*name), xml);
  EXPECT_STREQ(getenv("GDR_TEST_BYSTANDER"), "stays");
}

TEST(PublishTopology, SecondTime_ReplacesTheFirst) {
  ASSERT_TRUE(publish_topology("one"));
  ASSERT_TRUE(publish_topology("two"));
  int assignments = 0;
  for (char** item = environ; *item != nullptr; ++item) {
    assignments += std::string(*item).rfind("NCCL_TOPO_FILE=", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(assignments, 1);
  EXPECT_EQ(content_of(getenv("NCCL_TOPO_FILE")), "two");
}

// What another thread holds must stay valid: NCCL reads its environment at any time.
TEST(PublishTopology, EnvironmentReadBefore_StaysAsItWas) {
  setenv("GDR_TEST_EARLY", "value", 1);
  char** before = environ;
  const char* value = getenv("GDR_TEST_EARLY");
  ASSERT_TRUE(publish_topology("x"));
  EXPECT_NE(environ, before);
  EXPECT_STREQ(value, "value");
  size_t count = 0;
  while (before[count] != nullptr) ++count;
  EXPECT_GT(count, 0u);
}

TEST(DanglingTopology, OnlyOwnNamesWithoutAFile_AreDangling) {
  EXPECT_TRUE(is_dangling_topology("/proc/self/fd/987"));
  EXPECT_FALSE(is_dangling_topology(""));
  EXPECT_FALSE(is_dangling_topology("/nowhere/topology.xml"));  // the user's own mistake
  Result<std::string> name = publish_topology("x");
  ASSERT_TRUE(name);
  EXPECT_FALSE(is_dangling_topology(*name));
}

}  // namespace
}  // namespace gdr::plugin

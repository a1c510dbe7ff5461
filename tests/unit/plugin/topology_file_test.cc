#include "plugin/topology_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/fakes/temp_folder.h"

namespace gdr::plugin {
namespace {

TEST(PublishTopology, Text_IsTheContentOfTheFileNamedInTheEnvironment) {
  std::string xml(200000, 'x');  // more than one write may take
  Result<std::string> name = publish_topology(xml);
  ASSERT_TRUE(name) << name.error().text;
  EXPECT_EQ(getenv("NCCL_TOPO_FILE"), *name);
  EXPECT_EQ(read_whole(*name), xml);
}

TEST(DanglingTopology, OnlyOwnNamesWithoutAFile_AreDangling) {
  EXPECT_TRUE(is_dangling_topology("/proc/self/fd/987"));
  EXPECT_FALSE(is_dangling_topology(""));
  EXPECT_FALSE(is_dangling_topology("/missing/topology.xml"));  // the user's own mistake
  ASSERT_TRUE(publish_topology("one"));
  Result<std::string> name = publish_topology("two");
  ASSERT_TRUE(name);
  EXPECT_EQ(read_whole(getenv("NCCL_TOPO_FILE")), "two");
  EXPECT_FALSE(is_dangling_topology(*name));
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_TRUE(is_dangling_topology("/proc/self/fd/" + std::to_string(pipe_ends[0])));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace
}  // namespace gdr::plugin

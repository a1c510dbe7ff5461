#include "topology/rail_map.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace gdr::topology {
namespace {

using ::testing::HasSubstr;

TEST(RailMap, Text_GivesGpusAndTheirTargets) {
  Result<RailMap> map =
      RailMap::parse("GPU0=mlx5_0; 1 = mlx5_3:2 , mlx5_4 ;0000:1b:00.0=mlx5_9;2=0102:00:00.0");
  ASSERT_TRUE(map) << map.error().text;
  ASSERT_EQ(map->entries().size(), 4u);
  EXPECT_EQ(map->entries()[0].index, 0);
  EXPECT_EQ(map->entries()[0].targets[0].hca, "mlx5_0");
  EXPECT_EQ(map->entries()[0].targets[0].port, -1);
  ASSERT_EQ(map->entries()[1].targets.size(), 2u);
  EXPECT_EQ(map->entries()[1].targets[0].port, 2);
  EXPECT_EQ(map->entries()[2].bdf, Bdf::parse("1b:00.0"));
  EXPECT_EQ(map->entries()[3].targets[0].hca, "0102:00:00.0") << "not split at its colons";
  EXPECT_EQ(map->entries()[3].targets[0].port, -1);
  EXPECT_EQ(map->to_string(), "GPU0=mlx5_0;1=mlx5_3:2,mlx5_4;0000:1b:00.0=mlx5_9;2=0102:00:00.0");
}

TEST(RailMap, File_HasLinesAndComments) {
  std::string name = ::testing::TempDir() + "rail_map." + std::to_string(getpid());
  std::ofstream(name) << "# rack 7\n\n GPU0=mlx5_0   # first\r\nGPU1=mlx5_1;GPU2=mlx5_2\n";
  Result<RailMap> map = RailMap::parse(name);
  unlink(name.c_str());
  ASSERT_TRUE(map) << map.error().text;
  ASSERT_EQ(map->entries().size(), 3u);
  EXPECT_EQ(map->entries()[0].targets[0].hca, "mlx5_0");
}

TEST(RailMap, MissingFileOrFolder_IsAnError) {
  Result<RailMap> map = RailMap::parse("/nonexistent/map");
  ASSERT_FALSE(map);
  EXPECT_THAT(map.error().text, HasSubstr("no file"));
  EXPECT_FALSE(RailMap::parse("/"));
}

TEST(RailMap, BadEntries_AreQuotedInTheError) {
  for (const char* text : {"=mlx5_0", "GPU0=", "GPU0=mlx5_0,", "GPU0=mlx5_0:0", "GPU0=mlx5_0:x",
                           "GPU0=mlx5_0:256", "GPUx=mlx5_0", "-1=mlx5_0", "GPU-1=mlx5_0",
                           "1b:00.8=mlx5_0", "GPU0=:1", "GPU0=mlx5_0;mlx5_1", "99999=mlx5_0"}) {
    Result<RailMap> map = RailMap::parse_entries(text);
    ASSERT_FALSE(map) << text;
    EXPECT_THAT(map.error().text, HasSubstr("entry")) << text;
  }
  EXPECT_FALSE(RailMap::parse_entries(""));
  EXPECT_FALSE(RailMap::parse_entries(" ;\n# only a comment = \n"));
}

TEST(RailMap, RandomText_GivesAMapThatRoundTripsOrAnError) {
  std::mt19937 random(11);
  const std::string alphabet = "GPU012=:;,.\n# abcmlx5_\0";
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    Result<RailMap> map = RailMap::parse_entries(text);
    if (!map) continue;
    Result<RailMap> again = RailMap::parse_entries(map->to_string());
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(again->to_string(), map->to_string()) << text;
  }
}

}  // namespace
}  // namespace gdr::topology

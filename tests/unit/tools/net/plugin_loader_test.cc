#include "tools/net/plugin_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/common/installed_folders.h"

namespace gdr::tools {
namespace {
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Behind the words come the folders beside the program, which depend on where it is installed.
std::vector<std::string> words_and_folders(std::vector<std::string> words,
                                           const std::string& file) {
  for (const std::string& folder : library_folders("/b/bin")) words.push_back(folder + "/" + file);
  return words;
}

TEST(PluginCandidates, Name_IsTriedAsNcclDoesAndBesideTheProgramUnlessItIsAPath) {
  const std::string file = "libnccl-net-gdr.so";
  const auto candidates = plugin_candidates("gdr", "/b/bin");
  EXPECT_EQ(candidates, words_and_folders({"gdr", file}, file));
  EXPECT_THAT(candidates, Contains("/b/bin/../lib/libnccl-net-gdr.so"));
  EXPECT_EQ(plugin_candidates("libx.so", "/b/bin"), words_and_folders({"libx.so"}, "libx.so"));
  EXPECT_THAT(plugin_candidates("./x/libp.so", "/b"), ElementsAre("./x/libp.so"));
}

TEST(PluginLoad, MissingPluginOrTable_IsReported) {
  EXPECT_THAT(Plugin::load("no-such-plugin").error().text,
              HasSubstr("libnccl-net-no-such-plugin.so"));
  EXPECT_THAT(Plugin::load("libm.so.6").error().text,
              HasSubstr("libm.so.6 exports no network table: none of ncclNetPlugin_v6 to "
                        "ncclNetPlugin_v12"));
}

TEST(PluginLoad, NoVersion_TakesTheNewestTable) {
  auto plugin = Plugin::load(REFERENCE_PLUGIN);
  ASSERT_TRUE(plugin) << plugin.error().text;
  EXPECT_THAT(plugin->tables(), ElementsAre(12, 11, 10, 9, 8, 7, 6));
  EXPECT_EQ(plugin->net().version(), 12);
  EXPECT_EQ(plugin->file(), REFERENCE_PLUGIN);
  auto old = Plugin::load(OLD_REFERENCE_PLUGIN);
  ASSERT_TRUE(old) << old.error().text;
  EXPECT_THAT(old->tables(), ElementsAre(8, 7, 6));
  EXPECT_EQ(old->net().version(), 8);
}

TEST(PluginLoad, Version_IsTakenOrTheErrorListsThoseThatExist) {
  for (int version : {8, 7, 6}) {
    auto plugin = Plugin::load(OLD_REFERENCE_PLUGIN, version);
    ASSERT_TRUE(plugin) << plugin.error().text;
    EXPECT_EQ(plugin->net().version(), version);
  }
  auto missing = Plugin::load(OLD_REFERENCE_PLUGIN, 11);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().text, HasSubstr("exports no ncclNetPlugin_v11"));
  EXPECT_THAT(missing.error().text, HasSubstr("it has the versions 8, 7, 6"));
}

TEST(ParseTable, NewestAndKnownVersions_AreTaken) {
  EXPECT_EQ(*parse_table("newest"), std::nullopt);
  EXPECT_EQ(*parse_table("6"), 6);
  EXPECT_EQ(*parse_table("12"), 12);
  for (const char* wrong : {"", "5", "13", "v8", "8x", "all", "-8"}) {
    auto parsed = parse_table(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_THAT(parsed.error().text, HasSubstr("is not a version: use newest or 6 to 12"));
  }
}
}  // namespace
}  // namespace gdr::tools

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

}  // namespace
}  // namespace gdr::tools

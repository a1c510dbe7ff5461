#include "tools/common/plugin_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gdr::tools {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PluginCandidates, Path_IsTakenLiterally) {
  EXPECT_THAT(plugin_candidates("./x/libp.so", "/b"), ElementsAre("./x/libp.so"));
}

TEST(PluginCandidates, Word_IsTriedAsNcclDoesAndBesideTheProgram) {
  EXPECT_THAT(plugin_candidates("gdr", "/b/bin"),
              ElementsAre("gdr", "libnccl-net-gdr.so", "/b/bin/../lib/libnccl-net-gdr.so"));
}

TEST(PluginCandidates, FileName_IsNotWrappedAgain) {
  EXPECT_THAT(plugin_candidates("libx.so", "/b"), ElementsAre("libx.so", "/b/../lib/libx.so"));
}

TEST(PluginLoad, MissingPlugin_NamesEveryAttempt) {
  auto plugin = Plugin::load("no-such-plugin");
  ASSERT_FALSE(plugin);
  EXPECT_THAT(plugin.error().text, HasSubstr("libnccl-net-no-such-plugin.so"));
}

TEST(PluginLoad, LibraryWithoutTable_IsReported) {
  auto plugin = Plugin::load("libm.so.6");
  ASSERT_FALSE(plugin);
  EXPECT_THAT(plugin.error().text, HasSubstr("ncclNetPlugin_v8"));
}
}  // namespace
}  // namespace gdr::tools

#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/tools/doctor/made_host.h"
#include "tools/doctor/checks/checks.h"

namespace gdr::tools::doctor {
namespace {

LibraryFile plugin_at(const std::string& file, std::vector<int> tables) {
  LibraryFile plugin{file, "LD_LIBRARY_PATH", ""};
  plugin.net_tables = std::move(tables);
  return plugin;
}

MadeHost& with_plugin_wanted(MadeHost& made) {
  made.host.libraries.is_known = true;
  made.host.environment["NCCL_NET_PLUGIN"] = "gdr";
  return made;
}

TEST(NetPlugin, FoundByTheLoader_IsOk) {
  MadeHost made;
  with_plugin_wanted(made).host.libraries.gdr_plugin = {plugin_at("/a/libnccl-net-gdr.so", {8, 9})};
  const Observations seen = net_plugin().run(made.host);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_EQ(seen[0].evidence, "/a/libnccl-net-gdr.so has the tables v8, v9 (by LD_LIBRARY_PATH)");
}

TEST(NetPlugin, NotFound_IsAFailureWithTheFolder) {
  MadeHost made;
  with_plugin_wanted(made).host.libraries.own_plugin = "/build/lib/libnccl-net-gdr.so";
  const Observations seen = net_plugin().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kFailure);
  EXPECT_TRUE(seen[0].fix.starts_with("export LD_LIBRARY_PATH='/build/lib':"));
}

TEST(NetPlugin, WithoutTables_IsAFailure) {
  MadeHost made;
  with_plugin_wanted(made).host.libraries.gdr_plugin = {plugin_at("/a/libnccl-net-gdr.so", {})};
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kFailure);
}

TEST(NetPlugin, TwoCopies_AreAWarning) {
  MadeHost made;
  with_plugin_wanted(made).host.libraries.gdr_plugin = {plugin_at("/a/libnccl-net-gdr.so", {8}),
                                                        plugin_at("/b/libnccl-net-gdr.so", {8})};
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kWarning);
}

TEST(NetPlugin, ByPath_IsOk) {
  MadeHost made;
  with_plugin_wanted(made).host.environment["NCCL_NET_PLUGIN"] = "/a/libnccl-net-gdr.so";
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kOk);
}

TEST(NetPlugin, DefaultPlugin_IsNamed) {
  MadeHost made;
  made.host.libraries.is_known = true;
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kOk);
  made.host.libraries.default_plugin = {plugin_at("/ofi/libnccl-net.so", {9, 10})};
  const Observations seen = net_plugin().run(made.host);
  EXPECT_EQ(seen[0].verdict, Verdict::kOk);
  EXPECT_NE(seen[0].evidence.find("/ofi/libnccl-net.so"), std::string::npos);
}

TEST(NetPlugin, ClashesOfTheDefaultName_AreWarnings) {
  MadeHost made;
  made.host.libraries.is_known = true;
  made.host.libraries.default_plugin = {plugin_at("/a/libnccl-net.so", {})};
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kWarning);
  made.host.libraries.default_plugin = {plugin_at("/a/libnccl-net.so", {8}),
                                        plugin_at("/b/libnccl-net.so", {9})};
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kWarning);
}

TEST(NetPlugin, OfAnotherMachine_IsUnknown) {
  MadeHost made;
  EXPECT_EQ(verdict_of(net_plugin(), made.host), Verdict::kUnknown);
}

}  // namespace
}  // namespace gdr::tools::doctor

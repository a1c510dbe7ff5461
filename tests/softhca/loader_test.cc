// What each release of NCCL finds in the built library, over the software HCA. LD_LIBRARY_PATH has
// the folders of the plugin and of the software HCA.
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/softhca/nccl_loader.h"
#include "tests/softhca/plugin_log.h"
#include "tests/unit/plugin/table_calls.h"

namespace gdr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Loader : public ::testing::TestWithParam<NcclRelease> {
 protected:
  const NcclRelease& release() const { return GetParam(); }
};

std::vector<int> versions_of(const std::vector<LoadedPlugin>& plugins) {
  std::vector<int> versions;
  for (const LoadedPlugin& plugin : plugins) versions.push_back(plugin.version);
  return versions;
}

TEST_P(Loader, ShortName_GetsTheNewestTableThatTheReleaseKnows) {
  auto plugins = load_plugins(release(), "gdr");
  ASSERT_THAT(plugins, SizeIs(1));
  EXPECT_EQ(plugins[0].file, "libnccl-net-gdr.so");
  EXPECT_EQ(plugins[0].version, release().tables[0]);
}

TEST_P(Loader, FullPath_IsFoundWhereTheReleaseTakesPaths) {
  const bool takes_paths = release().rule == NameRule::kAnyThenShortName ||
                           release().rule == NameRule::kAnyThenShortNameOfAWord;
  auto plugins = load_plugins(release(), PLUGIN);
  ASSERT_THAT(plugins, SizeIs(takes_paths ? 1 : 0));
  for (const LoadedPlugin& plugin : plugins) EXPECT_EQ(plugin.version, release().tables[0]);
}

TEST_P(Loader, FileName_IsFoundSince2_21) {
  auto plugins = load_plugins(release(), "libnccl-net-gdr.so");
  EXPECT_THAT(plugins, SizeIs(release().rule == NameRule::kShortName ? 0 : 1));
}

// An entry that does not exist, a library without a table, and this plugin.
TEST_P(Loader, List_ThisPluginIsFoundBehindOthers) {
  auto plugins = load_plugins(release(), "missing,libm.so.6,gdr");
  if (!release().takes_list) {
    EXPECT_THAT(plugins, IsEmpty());
  } else {
    EXPECT_THAT(versions_of(plugins), ElementsAre(release().tables[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(Nccl, Loader, ::testing::ValuesIn(nccl_releases()), [](const auto& one) {
  std::string name = one.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == ' '; }, '_');
  return name;
});

// The tests below call init, which reads the environment once in a process.
struct LoaderInit : ::testing::Test {
  void SetUp() override { unsetenv("NCCL_TOPO_FILE"); }
  // Of the newest release.
  const abi::ncclNet_v12_t& load() {
    plugins_ = load_plugins(nccl_releases().back(), "gdr");
    EXPECT_EQ(versions_of(plugins_), std::vector<int>{12});
    return *static_cast<const abi::ncclNet_v12_t*>(plugins_.at(0).table);
  }
  abi::ncclResult_t init(const abi::ncclNet_v12_t& net) {
    return plugin::init(net, PluginLog::logger(), &context_);
  }

  std::vector<LoadedPlugin> plugins_;
  void* context_ = nullptr;
};

TEST_F(LoaderInit, OlderRelease_InitLogsItsTable) {
  const std::vector<NcclRelease>& releases = nccl_releases();
  const auto older = std::ranges::find(releases, 8, [](const auto& one) { return one.tables[0]; });
  ASSERT_NE(older, releases.end());
  plugins_ = load_plugins(*older, "gdr");
  ASSERT_EQ(versions_of(plugins_), std::vector<int>{8});
  const auto& net = *static_cast<const abi::ncclNet_v8_t*>(plugins_[0].table);
  ASSERT_EQ(net.init(PluginLog::logger()), abi::ncclSuccess) << PluginLog::text();
  EXPECT_THAT(PluginLog::lines(", table v8), "), SizeIs(1));
}

// The numbers of NCCL_IB_HCA, in its order; the names stay those of the verbs devices.
TEST_F(LoaderInit, RailsAndPlanesOfTheUser_AreReported) {
  setenv("NCCL_IB_HCA", "softhca0:1:5:2,softhca1:1:6", 1);
  const abi::ncclNet_v12_t& net = load();
  ASSERT_EQ(init(net), abi::ncclSuccess) << PluginLog::text();
  abi::ncclNetProperties_v12_t first{}, second{};
  ASSERT_EQ(net.getProperties(0, &first), abi::ncclSuccess);
  ASSERT_EQ(net.getProperties(1, &second), abi::ncclSuccess);
  EXPECT_STREQ(first.name, "softhca0");
  EXPECT_EQ(first.railId, 5);
  EXPECT_EQ(first.planeId, 2);
  EXPECT_STREQ(second.name, "softhca1");
  EXPECT_EQ(second.railId, 6);
  EXPECT_EQ(second.planeId, abi::kNetIdUndefined);
  EXPECT_EQ(net.finalize(context_), abi::ncclSuccess);
}

// NCCL then goes on with the next plugin of the list, and with its own transports.
TEST_F(LoaderInit, NoDevice_IsDeclinedWithTheReasonAndLeavesNothing) {
  setenv("NCCL_IB_HCA", "=absent", 1);
  const abi::ncclNet_v12_t& net = load();
  EXPECT_EQ(init(net), abi::ncclSystemError);
  EXPECT_EQ(context_, nullptr);
  EXPECT_THAT(PluginLog::warnings("init: no usable RDMA device"), SizeIs(1));
  EXPECT_THAT(PluginLog::warnings("NCCL continues with another transport"), SizeIs(1));
  int devices = -1;
  EXPECT_EQ(net.devices(&devices), abi::ncclSuccess);
  EXPECT_EQ(devices, 0);
  plugins_.clear();
  EXPECT_THAT(load_plugins(nccl_releases().back(), "missing,gdr"), SizeIs(1));
}

// NCCL ends a communicator's context itself where there are no devices.
TEST_F(LoaderInit, Disabled_HasNoDevicesAndEndsItsContext) {
  setenv("NCCL_IB_DISABLE", "1", 1);
  const abi::ncclNet_v12_t& net = load();
  ASSERT_EQ(init(net), abi::ncclSuccess);
  int devices = -1;
  EXPECT_EQ(net.devices(&devices), abi::ncclSuccess);
  EXPECT_EQ(devices, 0);
  EXPECT_EQ(net.finalize(context_), abi::ncclSuccess);
}

}  // namespace
}  // namespace gdr

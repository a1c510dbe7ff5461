// What each release of NCCL finds in the built library, over the software HCA. LD_LIBRARY_PATH has
// the folders of the plugin and of the software HCA. Which files a release tries for
// NCCL_NET_PLUGIN, and which tables it looks up, in order, was read from the sources of the
// releases (src/net.cc up to 2.25, src/plugin/net.cc and src/plugin/plugin_open.cc since).
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/softhca/plugin_log.h"
#include "tests/unit/plugin/table_calls.h"

namespace gdr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// What is tried for an entry of NCCL_NET_PLUGIN. The short name of "gdr" is libnccl-net-gdr.so.
enum class NameRule {
  kShortName,                // 2.13 to 2.20: as a short name, whatever it is
  kAnyThenShortName,         // 2.21 to 2.26: the value as it stands, then as a short name
  kLibraryOrShortName,       // 2.27.3: lib*.so as it stands, anything else as a short name
  kAnyThenShortNameOfAWord,  // since 2.27.5: as 2.21, but a path or lib*.so only as it stands
};

struct NcclRelease {
  std::string name;
  NameRule rule;
  bool takes_list;          // NCCL_NET_PLUGIN=a,b
  std::vector<int> tables;  // in the order in which they are looked up
};

void PrintTo(const NcclRelease& release, std::ostream* out) { *out << "NCCL " << release.name; }

// One of each kind of release, oldest first.
const std::vector<NcclRelease>& nccl_releases() {
  using enum NameRule;
  static const std::vector<NcclRelease> releases{
      {"2.13 to 2.18", kShortName, false, {6, 5, 4}},
      {"2.19", kShortName, false, {7, 6, 5}},
      {"2.20", kShortName, false, {8, 7, 6, 5}},
      {"2.21 to 2.23", kAnyThenShortName, false, {8, 7, 6, 5}},
      {"2.24 and 2.25", kAnyThenShortName, false, {9, 8, 7, 6, 5}},
      {"2.26", kAnyThenShortName, false, {10, 9, 8, 7, 6}},
      {"2.27.3", kLibraryOrShortName, true, {10, 9, 8, 7, 6}},
      {"2.27.5 to 2.27.7", kAnyThenShortNameOfAWord, true, {10, 9, 8, 7, 6}},
      {"2.28 and 2.29", kAnyThenShortNameOfAWord, true, {11, 10, 9, 8, 7, 6}},
      {"2.30", kAnyThenShortNameOfAWord, true, {12, 11, 10, 9, 8, 7, 6}},
  };
  return releases;
}

std::string short_name(const std::string& entry) { return "libnccl-net-" + entry + ".so"; }

bool is_library_name(const std::string& entry) {
  return entry.starts_with("lib") && entry.ends_with(".so");
}

// The files that a release gives to dlopen(3), in order, for one entry of the list.
std::vector<std::string> files_to_try(NameRule rule, const std::string& entry) {
  switch (rule) {
    case NameRule::kShortName:
      return {short_name(entry)};
    case NameRule::kAnyThenShortName:
      return {entry, short_name(entry)};
    case NameRule::kLibraryOrShortName:
      return {is_library_name(entry) ? entry : short_name(entry)};
    case NameRule::kAnyThenShortNameOfAWord:
      break;
  }
  if (is_library_name(entry) || entry.find('/') != std::string::npos) return {entry};
  return {entry, short_name(entry)};
}

std::vector<std::string> entries_of(const NcclRelease& release, const std::string& value) {
  if (!release.takes_list) return {value};
  std::vector<std::string> entries;
  std::istringstream list(value);
  for (std::string entry; std::getline(list, entry, ',');) {
    if (!entry.empty()) entries.push_back(entry);
  }
  return entries;
}

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

// A plugin as a release found it.
struct LoadedPlugin {
  std::string file;
  Library library;
  int version;        // of the table
  const void* table;  // ncclNet_v<version>_t
};

// A library without a table is closed again.
std::optional<LoadedPlugin> load(const NcclRelease& release, const std::string& entry) {
  for (const std::string& file : files_to_try(release.rule, entry)) {
    Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (library == nullptr) continue;
    for (int version : release.tables) {
      const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
      const void* table = dlsym(library.get(), symbol.c_str());
      if (table != nullptr) return LoadedPlugin{file, std::move(library), version, table};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

// The plugins that a release finds for a value of NCCL_NET_PLUGIN, in its order. Entries without a
// file, and files without a table that it knows, are left out.
std::vector<LoadedPlugin> load_plugins(const NcclRelease& release, const std::string& value) {
  std::vector<LoadedPlugin> plugins;
  for (const std::string& entry : entries_of(release, value)) {
    std::optional<LoadedPlugin> plugin = load(release, entry);
    if (plugin) plugins.push_back(std::move(*plugin));
  }
  return plugins;
}

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

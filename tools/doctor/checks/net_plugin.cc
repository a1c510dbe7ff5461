#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

std::string describe_plugin(const LibraryFile& plugin) {
  if (plugin.net_tables.empty()) return plugin.file + " has no table ncclNetPlugin_vN";
  return fmt::format("{} has the tables v{} (by {})", plugin.file,
                     fmt::join(plugin.net_tables, ", v"), plugin.found_by);
}

std::string plugin_fix(const Host& host) {
  if (host.libraries.own_plugin.empty()) {
    return "add the folder of libnccl-net-gdr.so to LD_LIBRARY_PATH of the job";
  }
  const std::string folder =
      std::filesystem::path(host.libraries.own_plugin).parent_path().string();
  return fmt::format(
      "export LD_LIBRARY_PATH='{}':\"$LD_LIBRARY_PATH\", or, from NCCL 2.21 on, export "
      "NCCL_NET_PLUGIN='{}'",
      folder, host.libraries.own_plugin);
}

// An entry with a path is judged by nccl_transport.cc.
bool is_by_path(const Host& host) {
  const std::vector<std::string> entries = plugin_entries(host);
  return std::any_of(entries.begin(), entries.end(), [](const std::string& entry) {
    return names_this_plugin(entry) && entry.find('/') != std::string::npos;
  });
}

Observations judge_this_plugin(const Host& host) {
  const LibraryFiles& files = host.libraries.gdr_plugin;
  if (is_by_path(host)) return {ok("", "NCCL_NET_PLUGIN has the plugin's path")};
  if (files.empty()) {
    return {failure("NCCL_NET_PLUGIN",
                    "the loader does not find libnccl-net-gdr.so, and NCCL goes on with its own "
                    "transport",
                    plugin_fix(host))};
  }
  if (files.front().net_tables.empty()) {
    return {failure("NCCL_NET_PLUGIN", describe_plugin(files.front()),
                    "install the plugin again, or remove that file")};
  }
  Observations seen = {ok("", describe_plugin(files.front()))};
  for (size_t i = 1; i < files.size(); ++i) {
    seen.push_back(at_cost(
        Cost::kRisk, warning(files[i].file,
                             fmt::format("it is a second copy of the plugin; {} is loaded (by {})",
                                         files.front().file, files.front().found_by),
                             "remove the copy that is out of date")));
  }
  return seen;
}

// libnccl-net.so is what NCCL loads where NCCL_NET_PLUGIN is unset, whoever installed it: that of
// libfabric (aws-ofi-nccl), of SHARP, or another one.
Observations judge_default_plugin(const Host& host) {
  const LibraryFiles& files = host.libraries.default_plugin;
  if (files.empty()) return {ok("", "there is no libnccl-net.so: NCCL uses its own transport")};
  Observations seen;
  if (files.front().net_tables.empty()) {
    seen.push_back(warning(files.front().file,
                           describe_plugin(files.front()) +
                               ", so that NCCL loads it and goes on with its own transport",
                           "export NCCL_NET_PLUGIN=none, or remove that file"));
  } else {
    seen.push_back(ok("", fmt::format("NCCL_NET_PLUGIN is unset, and NCCL loads {} in place of its "
                                      "own transport",
                                      describe_plugin(files.front()))));
  }
  if (files.size() > 1) {
    seen.push_back(at_cost(
        Cost::kRisk, warning(files[1].file,
                             fmt::format("it is a second libnccl-net.so; {} is loaded (by {}), and "
                                         "another order of folders would load this one",
                                         files.front().file, files.front().found_by),
                             "name the one to load: export NCCL_NET_PLUGIN=PATH")));
  }
  return seen;
}

Observations run_net_plugin(const Host& host) {
  if (!host.libraries.is_known) {
    return {unknown("", "the libraries of another machine are not looked for",
                    "run it on the machine itself")};
  }
  if (asks_for_this_plugin(host)) return judge_this_plugin(host);
  if (!host.environment.contains("NCCL_NET_PLUGIN")) return judge_default_plugin(host);
  return {ok("", setting_text(host, "NCCL_NET_PLUGIN") + ": it is not this plugin")};
}

}  // namespace

Check net_plugin() {
  return {.name = "net-plugin",
          .looks_at = "the network plugin that NCCL loads, as the loader finds it",
          .why =
              "Where NCCL does not find a plugin, or finds another one, it goes on without a "
              "message, perhaps on one node only.",
          .cost = Cost::kStops,
          .run = run_net_plugin};
}

}  // namespace gdr::tools::doctor

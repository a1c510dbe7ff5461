// Which transport NCCL will use: NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_DISABLE (ncclNetInit in
// NCCL's src/plugin/net.cc).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <filesystem>

#include "plugin/config/values.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kNet[] = "NCCL_NET";
constexpr char kNetPlugin[] = "NCCL_NET_PLUGIN";

bool is_same(const std::string& a, const char* b) { return strcasecmp(a.c_str(), b) == 0; }

void judge_entries(const Host& host, Observations* seen) {
  for (const std::string& entry : plugin_entries(host)) {
    if (!names_this_plugin(entry) &&
        (is_same(entry, "gdr") || is_same(entry, "libnccl-net-gdr.so") ||
         is_same(entry, "nccl-net-gdr"))) {
      seen->push_back(failure(kNetPlugin,
                              fmt::format("{}: NCCL finds no library of this name and goes on with "
                                          "its own transport",
                                          value_text(host, kNetPlugin)),
                              set_text(host, kNetPlugin, "gdr")));
    } else if (entry.front() == '/' && !host.exists(entry)) {
      seen->push_back(failure(kNetPlugin,
                              fmt::format("{}: there is no such file, and NCCL goes on with its "
                                          "own transport",
                                          value_text(host, kNetPlugin)),
                              set_text(host, kNetPlugin, "gdr") + ", or install the file"));
    }
  }
}

// A setting by which NCCL does without HCAs, which is right where there are none.
Observation without_rdma(const Host& host, const char* name, const std::string& effect) {
  const std::string evidence = fmt::format("{}: {}", value_text(host, name), effect);
  if (rdma_device_names(host).empty()) {
    return ok_without(host, name, evidence + "; there is no HCA here");
  }
  return failure(name, evidence, unset_text(host, name));
}

bool has_plugin_variable(const Host& host) { return host.environment.contains(kNetPlugin); }

// Without NCCL_NET_PLUGIN, NCCL loads libnccl-net.so, which may be a link to this plugin.
Observation net_gdr_without_plugin(const Host& host) {
  const std::string setting = value_text(host, kNet);
  const LibraryFiles& files = host.libraries.default_plugin;
  if (!has_plugin_variable(host) && !files.empty()) {
    if (files.front().is_this_plugin) {
      return ok(kNet, setting + ": NCCL loads this plugin as " + files.front().file);
    }
    return warning(kNet,
                   fmt::format("{}: NCCL loads {}, which may be another plugin, and ends where "
                               "that is not called GDR",
                               setting, files.front().file),
                   "export NCCL_NET_PLUGIN=gdr");
  }
  return failure(kNet,
                 setting +
                     ": NCCL does not load that plugin, and ends with \"Failed to "
                     "initialize any NET plugin\"",
                 "export NCCL_NET_PLUGIN=gdr");
}

// A name that is neither one of NCCL's own transports nor this plugin's.
Observation net_of_another_plugin(const Host& host) {
  const std::string setting = value_text(host, kNet);
  if (asks_for_this_plugin(host)) {
    return warning(kNet,
                   fmt::format("{}: the plugin of {} is called GDR, so that NCCL does not use it",
                               setting, setting_text(host, kNetPlugin)),
                   set_text(host, kNet, "GDR") + ", or " + unset_text(host, kNet));
  }
  if (has_plugin_variable(host) || !host.libraries.is_known ||
      !host.libraries.default_plugin.empty()) {
    return unknown(kNet,
                   setting + ": whether the plugin that NCCL loads has that name is not known",
                   "look for \"Using network\" in the log of a job at NCCL_DEBUG=INFO");
  }
  return failure(kNet,
                 setting +
                     ": NCCL has no transport of that name and loads no plugin "
                     "(NCCL_NET_PLUGIN is unset, and there is no libnccl-net.so), so that "
                     "it ends with \"Failed to initialize any NET plugin\"",
                 unset_text(host, kNet));
}

// NCCL_NET names the one transport that may be used, by the name in the plugin's table.
void judge_net(const Host& host, const std::string& net, Observations* seen) {
  if (is_same(net, "Socket")) {
    seen->push_back(without_rdma(host, kNet, "NCCL uses TCP sockets only, never RDMA"));
  } else if (is_same(net, "IB")) {
    if (!asks_for_this_plugin(host)) return;
    seen->push_back(warning(kNet,
                            fmt::format("{}: NCCL uses its own transport, and not the plugin of {}",
                                        value_text(host, kNet), setting_text(host, kNetPlugin)),
                            unset_text(host, kNet)));
  } else if (!is_same(net, "GDR")) {
    seen->push_back(net_of_another_plugin(host));
  } else if (!asks_for_this_plugin(host)) {
    seen->push_back(net_gdr_without_plugin(host));
  }
}

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

}  // namespace

Observations run_nccl_transport(const Host& host) {
  Observations seen;
  if (nccl_number(host, "NCCL_IB_DISABLE").value_or(0) != 0) {
    seen.push_back(without_rdma(host, "NCCL_IB_DISABLE",
                                "neither NCCL's own transport nor the plugin uses RDMA"));
  }
  if (const auto net = nccl_setting(host, kNet)) judge_net(host, *net, &seen);
  judge_entries(host, &seen);
  if (!seen.empty()) return seen;
  if (!has_plugin_variable(host)) {
    return {nothing_set(host,
                        "NCCL_NET_PLUGIN is unset: NCCL uses libnccl-net.so where there is one, "
                        "else its own transport; NCCL_NET_PLUGIN=gdr selects this plugin")};
  }
  if (asks_for_this_plugin(host)) return {ok("", setting_text(host, kNetPlugin))};
  return {ok("", setting_text(host, kNetPlugin) + ": this plugin is not used")};
}

Observations run_net_plugin(const Host& host) {
  if (!host.libraries.is_known) {
    return {unknown("", "the libraries of another machine are not looked for",
                    "run it on the machine itself")};
  }
  if (asks_for_this_plugin(host)) return judge_this_plugin(host);
  if (!host.environment.contains("NCCL_NET_PLUGIN")) return judge_default_plugin(host);
  Observations seen;
  for (const std::string& file : host.libraries.missing_plugins) {
    seen.push_back(warning(
        kNetPlugin,
        "the loader does not find " + config::printable(file) + ", and NCCL goes on without it",
        "correct the name, or add the library's folder to LD_LIBRARY_PATH"));
  }
  if (seen.empty()) seen = {ok("", setting_text(host, kNetPlugin) + ": it is not this plugin")};
  return seen;
}

}  // namespace gdr::tools::doctor

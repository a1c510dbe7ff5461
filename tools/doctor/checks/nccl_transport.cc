// Which transport NCCL will use: NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_DISABLE (ncclNetInit in
// NCCL's src/plugin/net.cc).
#include <fmt/format.h>
#include <strings.h>

#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kNet[] = "NCCL_NET";
constexpr char kNetPlugin[] = "NCCL_NET_PLUGIN";

bool is_same(const std::string& a, const char* b) { return strcasecmp(a.c_str(), b) == 0; }

void judge_entries(const Host& host, Observations* seen) {
  for (const std::string& entry : plugin_entries(host)) {
    std::error_code error;
    if (!names_this_plugin(entry) &&
        (is_same(entry, "gdr") || is_same(entry, "libnccl-net-gdr.so") ||
         is_same(entry, "nccl-net-gdr"))) {
      seen->push_back(failure(kNetPlugin,
                              fmt::format("{}: NCCL finds no library of this name and goes on with "
                                          "its own transport",
                                          value_text(host, kNetPlugin)),
                              set_text(host, kNetPlugin, "gdr")));
    } else if (entry.front() == '/' && !std::filesystem::exists(host.path(entry), error)) {
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
  if (rdma_device_names(host).empty()) return ok(name, evidence + "; there is no HCA here");
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

}  // namespace

Check nccl_transport() {
  return {.name = "nccl-transport",
          .looks_at = "the variables that select NCCL's transport",
          .why =
              "NCCL falls back to sockets or to another transport without a message, or does not "
              "start.",
          .cost = Cost::kStops,
          .run = run_nccl_transport};
}

}  // namespace gdr::tools::doctor

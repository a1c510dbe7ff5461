// Which transport NCCL will use: NCCL_NET, NCCL_NET_PLUGIN and NCCL_IB_DISABLE (ncclNetInit in
// NCCL's src/plugin/net.cc).
#include <fmt/format.h>
#include <strings.h>

#include <sstream>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nccl_settings.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kNet[] = "NCCL_NET";
constexpr char kNetPlugin[] = "NCCL_NET_PLUGIN";

bool is_same(const std::string& a, const char* b) { return strcasecmp(a.c_str(), b) == 0; }

// NCCL looks for an entry as a library's name, and as libnccl-net-ENTRY.so. Names of files are in
// this case only.
bool names_this_plugin(const std::string& entry) {
  const std::string file = entry.substr(entry.rfind('/') + 1);
  return entry == "gdr" || file == "libnccl-net-gdr.so";
}

std::vector<std::string> plugin_entries(const Host& host) {
  std::istringstream list(nccl_setting(host, kNetPlugin).value_or(""));
  std::vector<std::string> entries;
  for (std::string entry; std::getline(list, entry, ',');) {
    if (!entry.empty()) entries.push_back(entry);
  }
  return entries;
}

bool asks_for_this_plugin(const Host& host) {
  for (const std::string& entry : plugin_entries(host)) {
    if (names_this_plugin(entry)) return true;
  }
  return false;
}

void judge_entries(const Host& host, Observations* seen) {
  for (const std::string& entry : plugin_entries(host)) {
    std::error_code error;
    if (!names_this_plugin(entry) &&
        (is_same(entry, "gdr") || is_same(entry, "libnccl-net-gdr.so") ||
         is_same(entry, "nccl-net-gdr"))) {
      seen->push_back(failure(kNetPlugin,
                              fmt::format("{}: NCCL finds no library of this name and goes on with "
                                          "its own transport",
                                          setting_text(host, kNetPlugin)),
                              set_text(host, kNetPlugin, "gdr")));
    } else if (entry.front() == '/' && !std::filesystem::exists(host.path(entry), error)) {
      seen->push_back(failure(kNetPlugin,
                              fmt::format("{}: there is no such file, and NCCL goes on with its "
                                          "own transport",
                                          setting_text(host, kNetPlugin)),
                              set_text(host, kNetPlugin, "gdr") + ", or install the file"));
    }
  }
}

// NCCL_NET names the one transport that may be used, by the name in the plugin's table.
void judge_net(const Host& host, const std::string& net, Observations* seen) {
  const std::string setting = setting_text(host, kNet);
  if (is_same(net, "Socket")) {
    seen->push_back(failure(kNet, setting + ": NCCL uses TCP sockets only, never RDMA",
                            unset_text(host, kNet)));
  } else if (is_same(net, "IB") && asks_for_this_plugin(host)) {
    seen->push_back(warning(kNet,
                            fmt::format("{}: NCCL uses its own transport, and not the plugin of {}",
                                        setting, setting_text(host, kNetPlugin)),
                            unset_text(host, kNet)));
  } else if (is_same(net, "GDR") && !asks_for_this_plugin(host)) {
    seen->push_back(failure(kNet,
                            setting + ": NCCL does not load that plugin, and ends with \"Failed to "
                                      "initialize any NET plugin\"",
                            "export NCCL_NET_PLUGIN=gdr"));
  } else if (asks_for_this_plugin(host) && !is_same(net, "GDR") && !is_same(net, "IB")) {
    seen->push_back(warning(kNet,
                            fmt::format("{}: the plugin of {} is called GDR, so that NCCL does not "
                                        "use it",
                                        setting, setting_text(host, kNetPlugin)),
                            set_text(host, kNet, "GDR") + ", or " + unset_text(host, kNet)));
  }
}

Observations run_nccl_transport(const Host& host) {
  Observations seen;
  if (nccl_number(host, "NCCL_IB_DISABLE").value_or(0) != 0) {
    seen.push_back(failure("NCCL_IB_DISABLE",
                           setting_text(host, "NCCL_IB_DISABLE") +
                               ": neither NCCL's own transport nor the plugin uses RDMA",
                           unset_text(host, "NCCL_IB_DISABLE")));
  }
  if (const auto net = nccl_setting(host, kNet)) judge_net(host, *net, &seen);
  judge_entries(host, &seen);
  if (!seen.empty()) return seen;
  const auto plugin = host.environment.find(kNetPlugin);
  if (plugin == host.environment.end()) {
    return {ok("",
               "NCCL_NET_PLUGIN is unset: NCCL uses libnccl-net.so where there is one, else "
               "its own transport; NCCL_NET_PLUGIN=gdr selects this plugin")};
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

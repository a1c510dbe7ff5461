#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"
#include "topology/model.h"

namespace gdr::tools::doctor {
namespace {

// Every HCA and port of the machine, of sysfs or, where that has none, as with the software HCA, of
// the topology.
discovery::HcaFilter::Ports all_ports(const Host& host) {
  discovery::HcaFilter::Ports ports;
  const std::string folder = "/sys/class/infiniband";
  for (const std::string& hca : host.names(folder)) {
    for (const std::string& port : host.names(fmt::format("{}/{}/ports", folder, hca))) {
      ports.emplace_back(hca, std::atoi(port.c_str()));
    }
  }
  if (!ports.empty() || !host.inspection.has_value()) return ports;
  for (const topology::Hca& hca : machine_of(host).hcas) {
    for (const topology::Port& port : hca.ports) ports.emplace_back(hca.name, port.number);
  }
  for (const discovery::SkippedPort& one : host.inspection->not_offered) {
    const size_t colon = one.port.rfind(':');
    if (one.port.empty()) continue;
    ports.emplace_back(one.port.substr(0, colon), std::atoi(one.port.c_str() + colon + 1));
  }
  return ports;
}

std::string hcas_of(const discovery::HcaFilter::Ports& ports) {
  std::vector<std::string> names;
  for (const auto& [hca, unused] : ports) names.push_back(hca);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// NCCL takes a blank for a part of the name (parseStringList in its src/misc/utils.cc), for HCAs in
// its own transport; the plugin does not.
void judge_blanks_of_filter(const Host& host, const char* name, Observations* seen) {
  const std::string value = nccl_setting(host, name).value_or("");
  const bool has_blanks = value.find_first_of(" \t") != std::string::npos;
  const bool has_name = value.find_first_not_of(" \t,^=") != std::string::npos;
  if (!has_blanks || !has_name) return;
  seen->push_back(at_cost(
      Cost::kHalves, warning(name,
                             value_text(host, name) + ": NCCL itself keeps the blanks, so that "
                                                      "these names match nothing there",
                             correct_text(host, name))));
}

void judge_hca_filter(const Host& host, const config::Options& options, Observations* seen) {
  constexpr char kName[] = "NCCL_IB_HCA";
  if (!nccl_setting(host, kName).has_value()) return;
  if (!asks_for_this_plugin(host)) judge_blanks_of_filter(host, kName, seen);
  const auto ports = all_ports(host);
  if (ports.empty()) {
    seen->push_back(ok(kName, value_text(host, kName) + ": there is no HCA that it could name"));
    return;
  }
  const auto is_accepted = [&](const auto& port) {
    return options.hcas.accepts(port.first, port.second);
  };
  const auto accepted = std::count_if(ports.begin(), ports.end(), is_accepted);
  const std::string value = value_text(host, kName);
  if (accepted == 0) {
    seen->push_back(failure(kName,
                            fmt::format("{} accepts none of the ports of this machine ({}), so "
                                        "that NCCL uses sockets",
                                        value, hcas_of(ports)),
                            correct_text(host, kName) + ", or name HCAs of this machine"));
    return;
  }
  const Findings findings = options.hcas.findings_on(ports);
  for (const Finding& one : findings) {
    const std::string fix = one.kind == FindingKind::kHcaPrefix
                                ? "if the other HCAs are not meant: " +
                                      set_text(host, kName, options.hcas.exact_text(ports))
                                : one.fix;
    seen->push_back(
        at_cost(Cost::kRisk, warning(kName, fmt::format("{}: {}", value, one.text), fix)));
  }
  if (findings.empty()) {
    seen->push_back(
        ok(kName, fmt::format("{} accepts {} of {} ports", value, accepted, ports.size())));
  }
}

void judge_interface_filter(const Host& host, const config::Options& options, Observations* seen) {
  constexpr char kName[] = "NCCL_SOCKET_IFNAME";
  if (!options.socket_interfaces.is_set()) return;
  judge_blanks_of_filter(host, kName, seen);
  const std::vector<std::string> interfaces = host.names("/sys/class/net");
  if (interfaces.empty()) {
    seen->push_back(unknown(kName, value_text(host, kName) + ": /sys/class/net has no interface",
                            "mount /sys"));
    return;
  }
  std::vector<std::string> accepted, up;
  for (const std::string& name : interfaces) {
    if (!options.socket_interfaces.accepts(name)) continue;
    accepted.push_back(name);
    if (host.line("/sys/class/net/" + name + "/operstate") != "down") up.push_back(name);
  }
  if (accepted.empty()) {
    seen->push_back(failure(kName,
                            fmt::format("{} matches no interface of this machine ({})",
                                        value_text(host, kName), fmt::join(interfaces, ", ")),
                            correct_text(host, kName) + ", or name one of them"));
  } else if (up.empty()) {
    seen->push_back(failure(kName,
                            fmt::format("{} matches {}, which is down", value_text(host, kName),
                                        fmt::join(accepted, ", ")),
                            "ip link set dev " + topo::shell_word(accepted.front()) +
                                " up, or name another interface"));
  } else {
    seen->push_back(
        ok(kName, fmt::format("{} matches {}", value_text(host, kName), fmt::join(up, ", "))));
  }
}

}  // namespace

Observations run_nccl_filters(const Host& host) {
  const config::Options options = config::load(host.environment, nullptr);
  Observations seen;
  judge_hca_filter(host, options, &seen);
  judge_interface_filter(host, options, &seen);
  if (seen.empty()) {
    seen.push_back(nothing_set(host, "NCCL_IB_HCA and NCCL_SOCKET_IFNAME are unset"));
  }
  return seen;
}

}  // namespace gdr::tools::doctor

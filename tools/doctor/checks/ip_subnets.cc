// Network interfaces of RoCE ports that share an IPv4 subnet with others: ARP flux.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/topo/shell_lines.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kIpv4Settings[] = "/proc/sys/net/ipv4/conf/";

// For each setting the kernel takes the greater of conf/all and conf/INTERFACE, or either of them
// where it is a switch (Linux, Documentation/networking/ip-sysctl.rst).
std::optional<int> arp_setting(const Host& host, const std::string& netdev, const char* name) {
  const auto value = [&](const std::string& of) -> std::optional<int> {
    const std::string line = host.line(kIpv4Settings + of + "/" + name);
    if (line.size() != 1 || line[0] < '0' || line[0] > '9') return {};
    return line[0] - '0';
  };
  const auto own = value(netdev);
  if (!own) return {};
  return std::max(*own, value("all").value_or(0));
}

struct ArpSettings {
  std::optional<int> ignore, announce, filter, rp_filter;
};

ArpSettings arp_settings(const Host& host, const std::string& netdev) {
  return {arp_setting(host, netdev, "arp_ignore"), arp_setting(host, netdev, "arp_announce"),
          arp_setting(host, netdev, "arp_filter"), arp_setting(host, netdev, "rp_filter")};
}

// Interfaces by the subnet of an address of theirs. A point-to-point address has no subnet.
using Subnets = std::map<std::string, std::set<std::string>>;

Subnets subnets_of(const Host& host) {
  Subnets subnets;
  for (const auto& [name, netdev] : host.ports.netdevs) {
    if (!netdev.is_up.value_or(true)) continue;  // it answers no one
    for (const Ipv4Address& one : netdev.addresses) {
      if (one.prefix_bits <= 0 || one.prefix_bits >= 31) continue;
      const uint32_t mask = ~uint32_t{0} << (32 - one.prefix_bits);
      subnets[to_string(Ipv4Address{one.address & mask, one.prefix_bits})].insert(name);
    }
  }
  return subnets;
}

std::set<std::string> roce_netdevs(const Host& host) {
  std::set<std::string> names;
  for (const FabricPort& one : judged_ports(host)) {
    if (!one.port->is_ethernet()) continue;
    names.insert(one.port->netdevs.begin(), one.port->netdevs.end());
  }
  return names;
}

// How many routing tables there are beside the kernel's own: those of policy routing. The file
// lists each as "Id 101:".
int policy_tables(const Host& host) {
  std::istringstream lines(host.read("/proc/net/fib_trie").value_or(""));
  int tables = 0;
  for (std::string line; std::getline(lines, line);) tables += line.starts_with("Id ") ? 1 : 0;
  return tables;
}

FixStep arp_step(const Host& host, const std::string& netdev, const char* setting, int wanted) {
  const std::string name = topo::shell_word(fmt::format("net/ipv4/conf/{}/{}", netdev, setting));
  return {fmt::format("Sets {} of {}.", setting, netdev),
          fmt::format("sysctl -w {}={}", name, wanted),
          fmt::format("sysctl -w {}={}", name,
                      topo::shell_word(host.line(kIpv4Settings + netdev + "/" + setting)))};
}

// What is wrong with one interface of a shared subnet, and the steps against it.
struct ArpFault {
  std::vector<std::string> settings;  // "arp_ignore 0"
  std::vector<FixStep> steps;
};

ArpFault arp_fault(const Host& host, const std::string& netdev, bool policy_routed) {
  const ArpSettings now = arp_settings(host, netdev);
  ArpFault fault;
  const auto add = [&](const char* setting, int value, int wanted) {
    fault.settings.push_back(fmt::format("{} {}", setting, value));
    fault.steps.push_back(arp_step(host, netdev, setting, wanted));
  };
  // With routes by source address, arp_filter answers only where the address is routed.
  const bool filtered = policy_routed && now.filter.value_or(0) == 1;
  if (now.ignore.value_or(1) == 0 && !filtered) add("arp_ignore", *now.ignore, 1);
  if (now.announce.value_or(2) < 2 && !filtered) add("arp_announce", *now.announce, 2);
  // The strict mode drops the requests of peers to which another interface has the route.
  if (now.rp_filter.value_or(0) == 1 && !policy_routed) add("rp_filter", 1, 2);
  return fault;
}

std::string commands_of(const std::vector<FixStep>& steps) {
  std::vector<std::string> commands;
  for (const FixStep& step : steps) commands.push_back(step.command);
  return fmt::format("{}", fmt::join(commands, "; "));
}

Observation shared_subnet(const Host& host, const std::string& subnet,
                          const std::set<std::string>& netdevs) {
  const int tables = policy_tables(host);
  std::vector<std::string> faults;
  std::vector<FixStep> steps;
  bool is_known = true;
  for (const std::string& netdev : netdevs) {
    is_known = is_known && arp_setting(host, netdev, "arp_ignore").has_value();
    const ArpFault fault = arp_fault(host, netdev, tables > 0);
    if (fault.settings.empty()) continue;
    faults.push_back(fmt::format("{}: {}", netdev, fmt::join(fault.settings, ", ")));
    steps.insert(steps.end(), fault.steps.begin(), fault.steps.end());
  }
  const std::string evidence =
      fmt::format("{} are in one subnet{}", fmt::join(netdevs, ", "),
                  tables > 0 ? fmt::format(", with {} tables of policy routing", tables) : "");
  if (!faults.empty()) {
    return warning(
        subnet, fmt::format("{}; {} (/proc/sys/net/ipv4/conf)", evidence, fmt::join(faults, "; ")),
        "one subnet for each rail; or " + commands_of(steps) + "; /etc/sysctl.d keeps them", steps);
  }
  if (!is_known)
    return unknown(subnet, evidence + "; their ARP settings are unknown", "mount /proc");
  return ok(subnet, evidence + ", and their ARP settings suit that");
}

// The interfaces of RoCE ports with an address of which nothing shows the subnet.
std::vector<std::string> netdevs_of_unknown_subnets(const Host& host,
                                                    const std::set<std::string>& of_ports) {
  std::vector<std::string> names;
  for (const auto& [name, netdev] : host.ports.netdevs) {
    const bool is_unknown =
        std::any_of(netdev.addresses.begin(), netdev.addresses.end(),
                    [](const Ipv4Address& one) { return one.prefix_bits == 0; });
    if (is_unknown && of_ports.contains(name) && netdev.is_up.value_or(true)) names.push_back(name);
  }
  return names;
}

Observations run_ip_subnets(const Host& host) {
  const std::set<std::string> of_ports = roce_netdevs(host);
  if (of_ports.empty()) return {nothing_on(host, "there is no RoCE port with a network interface")};
  Observations seen;
  for (const auto& [subnet, netdevs] : subnets_of(host)) {
    const bool has_roce = std::any_of(netdevs.begin(), netdevs.end(), [&](const std::string& one) {
      return of_ports.contains(one);
    });
    if (netdevs.size() > 1 && has_roce) seen.push_back(shared_subnet(host, subnet, netdevs));
  }
  const std::vector<std::string> unknown_ones = netdevs_of_unknown_subnets(host, of_ports);
  if (!unknown_ones.empty()) {
    seen.push_back(unknown(topo::short_list(unknown_ones),
                           "the subnets of its addresses are unknown (/proc/net/route)",
                           "run it on the machine itself"));
  }
  if (seen.empty()) return {ok("", "no RoCE port shares its IPv4 subnet with another interface")};
  return seen;
}

}  // namespace

Check ip_subnets() {
  return {.name = "ip-subnets",
          .looks_at = "RoCE ports that share an IPv4 subnet, and the ARP settings for that",
          .why =
              "Linux answers an ARP request for any of its addresses on any interface, so that "
              "peers send a rail's packets to another NIC, which drops them (ARP flux).",
          .cost = Cost::kHalves,
          .run = run_ip_subnets};
}

}  // namespace gdr::tools::doctor

// The addresses of RoCE ports: the GID that NCCL and the plugin choose on each, and network
// interfaces that share an IPv4 subnet with others (ARP flux).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/finding.h"
#include "plugin/config/load.h"
#include "plugin/discovery/discovery.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

transport::GidPreference gid_preference(const Host& host) {
  const config::Options options = config::load(host.environment, nullptr);
  return {options.gid_index, options.roce_version, options.address_family, options.address_range,
          options.routable_gid_index};
}

std::vector<transport::GidEntry> gid_table(const RdmaPort& port) {
  std::vector<transport::GidEntry> table;
  for (const RdmaGid& one : port.gids) table.push_back(one.entry);
  return table;
}

std::string gid_text(const RdmaPort& port, const transport::GidEntry& chosen) {
  std::string netdev;
  for (const RdmaGid& one : port.gids) {
    if (one.entry.index == chosen.index && !one.netdev.empty()) netdev = ", " + one.netdev;
  }
  return fmt::format("GID index {} {} ({}{})", chosen.index, transport::to_string(chosen.gid),
                     transport::to_string(chosen.type), netdev);
}

constexpr char kGidIndex[] = "NCCL_IB_GID_INDEX";

std::string set_address(const RdmaPort& port) {
  return fmt::format("give its network interface an address: ip addr add ADDRESS/PREFIX dev {}",
                     port.netdevs.empty() ? "INTERFACE" : topo::shell_word(port.netdevs.front()));
}

// The texts of select_gid() end in ". Fix: ...".
Observation no_gid(const FabricPort& one, const std::string& text) {
  const TextAndFix parts = split_fix(text);
  return failure(one.label, parts.text, parts.fix.empty() ? set_address(*one.port) : parts.fix);
}

Observation unfit_gid(const Host& host, const FabricPort& one, const transport::GidEntry& chosen,
                      const transport::GidPreference& preference, const std::string& evidence) {
  const bool is_forced = preference.forced_index >= 0;
  const std::string unset_index = unset_text(host, kGidIndex);
  if (transport::is_link_local(chosen.gid)) {
    return warning(one.label, evidence + ": link-local, so that only peers in its subnet reach it",
                   is_forced ? unset_index : set_address(*one.port));
  }
  if (chosen.type != transport::GidType::kRoceV2) {
    return warning(one.label, evidence + ": RoCE v1 is not routed, and carries no ECN",
                   is_forced ? unset_index
                             : unset_text(host, "NCCL_IB_ROCE_VERSION_NUM") +
                                   ", and enable RoCE v2 in the driver");
  }
  return warning(one.label,
                 evidence +
                     ": NCCL_IB_ADDR_FAMILY asks for the other family; NCCL's own transport "
                     "then takes index 0",
                 fmt::format("export NCCL_IB_ADDR_FAMILY={}",
                             transport::is_ipv4_mapped(chosen.gid) ? "AF_INET" : "AF_INET6"));
}

Observation roce_gid(const Host& host, const FabricPort& one,
                     const transport::GidPreference& preference) {
  const auto chosen = transport::select_gid(gid_table(*one.port), preference);
  if (!chosen) return no_gid(one, chosen.error().text);
  std::string evidence = gid_text(*one.port, *chosen);
  if (preference.forced_index >= 0) evidence += " by NCCL_IB_GID_INDEX";
  const bool is_forced = preference.forced_index >= 0;
  const bool is_of_version =
      chosen->type == transport::GidType::kRoceV2 || (!is_forced && preference.roce_version == 1);
  const bool is_of_family = is_forced || transport::family_of(chosen->gid) == preference.family;
  if (!transport::is_link_local(chosen->gid) && is_of_version && is_of_family) {
    return ok(one.label, evidence);
  }
  return unfit_gid(host, one, *chosen, preference, evidence);
}

// A forced index may be of IPv4 on one port and of IPv6 on another, which cannot connect.
void add_mixed_families(const Host& host, const std::vector<FabricPort>& ports,
                        const transport::GidPreference& preference, Observations* seen) {
  if (preference.forced_index < 0) return;
  std::vector<std::string> ipv4, ipv6;
  for (const FabricPort& one : ports) {
    const auto chosen = transport::select_gid(gid_table(*one.port), preference);
    if (!chosen) continue;
    (transport::is_ipv4_mapped(chosen->gid) ? ipv4 : ipv6).push_back(one.label);
  }
  if (ipv4.empty() || ipv6.empty()) return;
  seen->push_back(warning("",
                          fmt::format("NCCL_IB_GID_INDEX={} is an IPv4 address on {} and another "
                                      "on {}",
                                      preference.forced_index, ipv4.front(), ipv6.front()),
                          unset_text(host, kGidIndex)));
}

// Without GPUs, a port whose interface has no address may be one that is not in use.
void allow_unused_ports(const Host& host, const std::vector<FabricPort>& ports,
                        const transport::GidPreference& preference, Observations* seen) {
  const auto is_fine = [](const Observation& one) { return one.verdict == Verdict::kOk; };
  if (has_rails(host) || std::none_of(seen->begin(), seen->end(), is_fine)) return;
  for (size_t i = 0; i < ports.size(); ++i) {
    const auto chosen = transport::select_gid(gid_table(*ports[i].port), preference);
    if (!chosen || !transport::is_link_local(chosen->gid)) continue;
    (*seen)[i] = ok((*seen)[i].subject, (*seen)[i].evidence);
  }
}

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

// What is wrong with one interface of a shared subnet, and the commands against it.
struct ArpFault {
  std::vector<std::string> settings;  // "arp_ignore 0"
  std::vector<std::string> steps;
};

ArpFault arp_fault(const Host& host, const std::string& netdev, bool policy_routed) {
  const ArpSettings now = arp_settings(host, netdev);
  ArpFault fault;
  const auto add = [&](const char* setting, int value, int wanted) {
    fault.settings.push_back(fmt::format("{} {}", setting, value));
    const std::string name = topo::shell_word(fmt::format("net/ipv4/conf/{}/{}", netdev, setting));
    fault.steps.push_back(fmt::format("sysctl -w {}={}", name, wanted));
  };
  // With routes by source address, arp_filter answers only where the address is routed.
  const bool filtered = policy_routed && now.filter.value_or(0) == 1;
  if (now.ignore.value_or(1) == 0 && !filtered) add("arp_ignore", *now.ignore, 1);
  if (now.announce.value_or(2) < 2 && !filtered) add("arp_announce", *now.announce, 2);
  // The strict mode drops the requests of peers to which another interface has the route.
  if (now.rp_filter.value_or(0) == 1 && !policy_routed) add("rp_filter", 1, 2);
  return fault;
}

Observation shared_subnet(const Host& host, const std::string& subnet,
                          const std::set<std::string>& netdevs) {
  const int tables = policy_tables(host);
  std::vector<std::string> faults;
  std::vector<std::string> steps;
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
        fmt::format("one subnet for each rail; or {}; /etc/sysctl.d keeps them",
                    fmt::join(steps, "; ")),
        steps);
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

}  // namespace

Observations run_roce_gids(const Host& host) {
  std::vector<FabricPort> ports = judged_ports(host);
  std::erase_if(ports, [](const FabricPort& one) {
    return !one.port->is_ethernet() || !one.port->is_active();
  });
  if (ports.empty()) return {nothing_on(host, "there is no active RoCE port to look at")};
  const transport::GidPreference preference = gid_preference(host);
  Observations seen;
  std::vector<std::pair<std::string, transport::Gid>> gids;
  for (const FabricPort& one : ports) {
    seen.push_back(roce_gid(host, one, preference));
    const auto chosen = transport::select_gid(gid_table(*one.port), preference);
    if (chosen) gids.emplace_back(one.label, chosen->gid);
  }
  if (preference.forced_index < 0) allow_unused_ports(host, ports, preference, &seen);
  add_mixed_families(host, ports, preference, &seen);
  for (const Finding& one : discovery::same_gids(gids)) seen.push_back(observation_of(one));
  return seen;
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

}  // namespace gdr::tools::doctor

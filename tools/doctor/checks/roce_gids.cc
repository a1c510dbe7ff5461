// The GID that NCCL and the plugin choose on each RoCE port.
#include <fmt/format.h>

#include <algorithm>

#include "base/finding.h"
#include "plugin/config/load.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/topo/shell_lines.h"

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

std::string set_address(const RdmaPort& port) {
  return fmt::format("give its network interface an address: ip addr add ADDRESS/PREFIX dev {}",
                     port.netdevs.empty() ? "INTERFACE" : topo::shell_word(port.netdevs.front()));
}

// The texts of select_gid() end in ". Fix: ...".
Observation no_gid(const FabricPort& one, const std::string& text) {
  const TextAndFix parts = split_fix(text);
  return failure(one.label, parts.text, parts.fix.empty() ? set_address(*one.port) : parts.fix);
}

Observation unfit_gid(const FabricPort& one, const transport::GidEntry& chosen,
                      const transport::GidPreference& preference, const std::string& evidence) {
  const bool is_forced = preference.forced_index >= 0;
  if (transport::is_link_local(chosen.gid)) {
    return warning(one.label, evidence + ": link-local, so that only peers in its subnet reach it",
                   is_forced ? "unset NCCL_IB_GID_INDEX" : set_address(*one.port));
  }
  if (chosen.type != transport::GidType::kRoceV2) {
    return warning(one.label, evidence + ": RoCE v1 is not routed, and carries no ECN",
                   is_forced ? "unset NCCL_IB_GID_INDEX"
                             : "unset NCCL_IB_ROCE_VERSION_NUM, and enable RoCE v2 in the driver");
  }
  return warning(one.label,
                 fmt::format("{}: {}; NCCL's own transport then takes index 0", evidence,
                             transport::unmet_preference(chosen, preference)),
                 fmt::format("export NCCL_IB_ADDR_FAMILY={}",
                             transport::is_ipv4_mapped(chosen.gid) ? "AF_INET" : "AF_INET6"));
}

Observation roce_gid(const FabricPort& one, const transport::GidPreference& preference) {
  const auto chosen = transport::select_gid(gid_table(*one.port), preference);
  if (!chosen) return no_gid(one, chosen.error().text);
  std::string evidence = gid_text(*one.port, *chosen);
  if (preference.forced_index >= 0) evidence += " by NCCL_IB_GID_INDEX";
  const bool is_asked_for =
      preference.forced_index < 0 && transport::unmet_preference(*chosen, preference).empty();
  const bool is_routable =
      chosen->type == transport::GidType::kRoceV2 && !transport::is_link_local(chosen->gid);
  if (is_asked_for || (is_routable && preference.forced_index >= 0)) {
    return ok(one.label, evidence);
  }
  return unfit_gid(one, *chosen, preference, evidence);
}

// A forced index may be of IPv4 on one port and of IPv6 on another, which cannot connect.
void add_mixed_families(const std::vector<FabricPort>& ports,
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
                          "unset NCCL_IB_GID_INDEX"));
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

Observations run_roce_gids(const Host& host) {
  std::vector<FabricPort> ports = judged_ports(host);
  std::erase_if(ports, [](const FabricPort& one) {
    return !one.port->is_ethernet() || !one.port->is_active();
  });
  if (ports.empty()) return {nothing_on(host, "there is no active RoCE port to look at")};
  const transport::GidPreference preference = gid_preference(host);
  Observations seen;
  for (const FabricPort& one : ports) seen.push_back(roce_gid(one, preference));
  if (preference.forced_index < 0) allow_unused_ports(host, ports, preference, &seen);
  add_mixed_families(ports, preference, &seen);
  return seen;
}

}  // namespace

Check roce_gids() {
  return {.name = "roce-gids",
          .looks_at = "the GID that NCCL and the plugin choose on each RoCE port",
          .why =
              "Both ends need a GID of the same RoCE version and address family that the "
              "network routes, or connections fail or time out.",
          .cost = Cost::kStops,
          .run = run_roce_gids};
}

}  // namespace gdr::tools::doctor

// Whether links came up at the speed and the width that they should have.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/host.h"
#include "tools/doctor/silent_file.h"
#include "transport/device/port_speed.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kLookAtLink[] =
    "look at the cable, the transceiver, the switch's port and nccl-gdr doctor --check "
    "error-counters; then set the port down and up";

bool is_peer_port(const FabricPort& a, const FabricPort& b) {
  return !a.hca->pci_ids.empty() && a.hca->pci_ids == b.hca->pci_ids &&
         a.port->link_layer == b.port->link_layer;
}

// An InfiniBand link that lost lanes, or negotiated the slowest speed: links to HCAs have 2 lanes
// (a split cable) or 4, and those of 10 Gb/s (SDR) went out of production long ago.
std::string degraded_infiniband(const RdmaPort& port) {
  if (!port.is_infiniband()) return "";
  if (port.rate.find("(1X ") != std::string::npos) return "the link has one lane of four";
  if (port.rate.find(" SDR)") != std::string::npos) return "the link came up at SDR, the slowest";
  return "";
}

// Without GPUs a slower port may be that of another network, so that it is only worth a look.
Observation rate_beside_peers(const FabricPort& one, const std::vector<FabricPort>& ports) {
  const int own = transport::rate_mbps(one.port->rate);
  for (const FabricPort& other : ports) {
    const int rate = transport::rate_mbps(other.port->rate);
    if (!other.port->is_active() || !is_peer_port(one, other) || rate <= own) continue;
    return warning(one.label,
                   fmt::format("the port runs at {}, {} of the same model at {}", one.port->rate,
                               other.label, other.port->rate),
                   kLookAtLink);
  }
  return ok(one.label, one.port->rate);
}

Observation port_rate_seen(const Host& host, const FabricPort& one,
                           const std::vector<FabricPort>& ports) {
  for (const Finding& finding : host.findings) {
    if (finding.kind != FindingKind::kSlowLink || finding.subject != one.label) continue;
    return observation_of(finding);
  }
  if (!one.port->is_active()) return ok(one.label, "not active: see port-state");
  // NCCL's rails are compared by the topology. Each device of software has the rate of no link.
  if (transport::rate_mbps(one.port->rate) == 0) {
    return unknown(one.label, "its rate is unknown", "mount /sys");
  }
  const std::string degraded = degraded_infiniband(*one.port);
  if (!degraded.empty() && !one.hca->is_virtual) {
    return warning(one.label, fmt::format("{}: {}", one.port->rate, degraded), kLookAtLink);
  }
  return rate_beside_peers(one, ports);
}

Observations run_port_rate(const Host& host) {
  const std::vector<FabricPort> ports = judged_ports(host);
  if (ports.empty()) return {no_fabric_port(host)};
  Observations seen;
  for (const FabricPort& one : ports) seen.push_back(port_rate_seen(host, one, ports));
  return seen;
}

}  // namespace

Check port_rate() {
  return {.name = "port-rate",
          .looks_at = "the rate of each port against those of its peers, and the lanes of its link",
          .why = "Each step of a collective waits for the slowest rail.",
          .cost = Cost::kSlows,
          .kinds = {FindingKind::kSlowLink},
          .of_silent_file = silent_file::of_port_rates,
          .run = run_port_rate};
}

}  // namespace gdr::tools::doctor

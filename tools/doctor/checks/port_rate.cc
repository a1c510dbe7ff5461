// Rate and link layer of ports.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "topology/live/slow_links.h"
#include "topology/sources/sysfs_files.h"

namespace gdr::tools::doctor {
namespace {

// Whether some GPU shares a PCIe switch with the HCA, which then belongs to the GPUs' network
// whatever its speed.
bool is_beside_gpu(const RailDecision& decision, int hca) {
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (decision.paths.gpu_hca(gpu, static_cast<size_t>(hca)) <= PathClass::kPxb) return true;
  }
  return false;
}

bool is_same_model(const Hca& a, const Hca& b) {
  return a.ids.vendor != 0 && a.ids.vendor == b.ids.vendor && a.ids.device == b.ids.device;
}

// Whether the port is near no GPU and others of its model are: it is of another network, and a rail
// only where nearer HCAs are missing.
bool is_substitute(const RailDecision& decision, PortRef port) {
  if (is_beside_gpu(decision, port.hca)) return false;
  const Machine& machine = decision.machine;
  return std::any_of(decision.plan.rails.begin(), decision.plan.rails.end(), [&](const Rail& rail) {
    return is_same_model(hca_of(machine, port), hca_of(machine, rail.port)) &&
           is_beside_gpu(decision, rail.port.hca);
  });
}

// Returns the ports whose speeds are compared: rails, and excluded ports beside a GPU, since a port
// that came up slowly may be excluded for just that.
std::vector<PortRef> compared_ports(const RailDecision& decision) {
  std::vector<PortRef> ports;
  for (const Rail& rail : decision.plan.rails) ports.push_back(rail.port);
  for (const topology::ExcludedPort& one : decision.plan.excluded) {
    if (is_beside_gpu(decision, one.port.hca)) ports.push_back(one.port);
  }
  const Machine& machine = decision.machine;
  std::erase_if(ports, [&](const PortRef& port) {
    const Port& one = port_of(machine, port);
    return one.state == Port::State::kDown || one.speed_mbps == 0 ||
           is_substitute(decision, port) || hca_of(machine, port).physical_function.has_value();
  });
  return ports;
}

// Whether the ports should run at one speed. Ports of one model may be on both link layers.
bool are_peer_ports(const Machine& machine, PortRef a, PortRef b) {
  const Port::LinkLayer layer = port_of(machine, a).link_layer;
  const Port::LinkLayer other = port_of(machine, b).link_layer;
  const bool any_unknown = layer == Port::LinkLayer::kUnknown || other == Port::LinkLayer::kUnknown;
  return is_same_model(hca_of(machine, a), hca_of(machine, b)) && (any_unknown || layer == other);
}

const char* link_layer_name(Port::LinkLayer layer) {
  return layer == Port::LinkLayer::kInfiniBand ? "InfiniBand" : "Ethernet";
}

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
  const int own = topology::rate_mbps(one.port->rate);
  for (const FabricPort& other : ports) {
    const int rate = topology::rate_mbps(other.port->rate);
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
  if (topology::rate_mbps(one.port->rate) == 0) {
    return unknown(one.label, "its rate is unknown", "mount /sys");
  }
  const std::string degraded = degraded_infiniband(*one.port);
  if (!degraded.empty() && !one.hca->is_virtual) {
    return warning(one.label, fmt::format("{}: {}", one.port->rate, degraded), kLookAtLink);
  }
  return rate_beside_peers(one, ports);
}

std::vector<std::string> labels_on_layer(const std::vector<FabricPort>& ports, const char* layer) {
  std::vector<std::string> labels;
  for (const FabricPort& one : ports) {
    if (one.port->link_layer == layer) labels.push_back(one.label);
  }
  return labels;
}

}  // namespace

void judge_port_speeds(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  const Machine& machine = decision.machine;
  if (machine.gpus.empty()) return;  // else storage networks are rails, too
  const std::vector<PortRef> ports = compared_ports(decision);
  for (const PortRef& port : ports) {
    const int own = topology::link_speed(machine, port);
    int best = own;
    std::vector<std::string> faster;
    for (const PortRef& other : ports) {
      if (!are_peer_ports(machine, port, other)) continue;
      best = std::max(best, topology::link_speed(machine, other));
      if (topology::link_speed(machine, other) > own) faster.push_back(port_label(machine, other));
    }
    if (best == own) continue;
    found->push_back(
        {FindingKind::kSlowLink, Severity::kError, port_label(machine, port),
         fmt::format("the port runs at {}, its peers {} at up to {}", topo::speed_text(own),
                     short_list(faster), topo::speed_text(best)),
         kLookAtLink});
  }
}

// Reports the rails of the link layer that fewer rails have, or both kinds where they are equally
// many: nothing says then which of the networks is meant.
void judge_link_layers(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  if (decision.machine.gpus.empty()) return;  // else storage networks are rails, too
  std::vector<std::string> few, many;         // few: InfiniBand until they are compared
  auto layer = Port::LinkLayer::kInfiniBand, other = Port::LinkLayer::kEthernet;
  for (const Rail& rail : decision.plan.rails) {
    const Port& port = port_of(decision.machine, rail.port);
    const std::string label = port_label(decision.machine, rail.port);
    if (port.link_layer == layer) few.push_back(label);
    if (port.link_layer == other) many.push_back(label);
  }
  if (few.empty() || many.empty()) return;
  if (many.size() < few.size()) {
    std::swap(few, many);
    std::swap(layer, other);
  }
  const bool is_either = few.size() == many.size();
  std::string exclusion = exclude_text(host, few);
  if (is_either) exclusion += " or " + exclude_text(host, many) + ", whichever is not for NCCL";
  found->push_back(
      {FindingKind::kLinkLayer, Severity::kWarning, short_list(few),
       fmt::format("link layer {}, that of {} is {}", link_layer_name(layer),
                   is_either ? short_list(many) : "the other rails", link_layer_name(other)),
       fmt::format("if they should be of one network: mlxconfig -d PCI set LINK_TYPE_P1=1 for "
                   "InfiniBand, 2 for Ethernet, then reboot; if not: {}",
                   exclusion)});
}

Observations run_port_rate(const Host& host) {
  const std::vector<FabricPort> ports = judged_ports(host);
  if (ports.empty()) return {no_fabric_port(host)};
  Observations seen;
  for (const FabricPort& one : ports) seen.push_back(port_rate_seen(host, one, ports));
  return seen;
}

Observations run_link_layer(const Host& host) {
  const std::vector<FabricPort> ports = judged_ports(host);
  if (ports.empty()) return {no_fabric_port(host)};
  Observations seen;
  const auto infiniband = labels_on_layer(ports, "InfiniBand");
  const auto ethernet = labels_on_layer(ports, "Ethernet");
  for (const FabricPort& one : ports) {
    if (one.port->link_layer.empty()) {
      seen.push_back(unknown(one.label, "its link layer is unknown", "mount /sys"));
    }
  }
  const Observations mixed = findings_of(host, check_named("link-layer").kinds);
  seen.insert(seen.end(), mixed.begin(), mixed.end());
  if (!infiniband.empty() && !ethernet.empty()) {
    // Without GPUs nothing says which ports are for NCCL.
    if (mixed.empty()) {
      seen.push_back(ok("", fmt::format("{} on Ethernet, {} on InfiniBand (link_layer in sysfs)",
                                        topo::short_list(ethernet), topo::short_list(infiniband))));
    }
  } else if (!infiniband.empty() || !ethernet.empty()) {
    seen.push_back(ok("", infiniband.empty() ? "all on Ethernet (RoCE)" : "all on InfiniBand"));
  }
  return seen;
}

}  // namespace gdr::tools::doctor

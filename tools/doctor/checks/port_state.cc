// Whether the ports are active, and if not, what keeps them from it.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

// The permissive LID, which a port has that was not configured (IBTA 4.1.3).
constexpr int kPermissiveLid = 0xffff;

bool is_assigned(const std::optional<int>& lid) {
  return lid.has_value() && *lid != 0 && *lid != kPermissiveLid;
}

// Returns what shows that a port is cabled or configured, for people: "it has the address
// 10.0.0.1"; "" where nothing shows it.
//
// - The physical link is up, or recovers from errors: the port is cabled. Other states are also
//   those of ports without a cable: mlx5 shows each RoCE port without carrier as Disabled, and an
//   InfiniBand port without a cable is Polling.
// - An InfiniBand port has a LID: a subnet manager configured it since the driver was loaded.
// - A GID is a mapped IPv4 address: the network interface of a RoCE port has it. The link-local GID
//   that each port has from its MAC address or GUID shows nothing.
std::string sign_of_use(const RdmaPort& port) {
  if (port.phys_state == PhysState::kLinkUp || port.phys_state == PhysState::kErrorRecovery) {
    return "its link is up physically, and not active";
  }
  if (is_assigned(port.lid)) return fmt::format("it has the LID {:#x}", *port.lid);
  for (const RdmaGid& one : port.gids) {
    constexpr std::string_view kMapped = "::ffff:";
    if (!transport::is_ipv4_mapped(one.entry.gid)) continue;
    return "it has the address " + transport::to_string(one.entry.gid).substr(kMapped.size());
  }
  return "";
}

// Null where only the topology has the port, as in a file.
const RdmaPort* rdma_port(const Host& host, const std::string& label) {
  for (const RdmaHca& hca : host.ports.hcas) {
    for (const RdmaPort& port : hca.ports) {
      if (fmt::format("{}:{}", hca.name, port.number) == label) return &port;
    }
  }
  return nullptr;
}

std::string port_state_text(const RdmaPort& port) {
  return fmt::format("state {}, physical state {}", to_string(port.state),
                     to_string(port.phys_state));
}

// Whether the port is the second one of cards that all have it down, and nothing shows its use.
bool is_spare_port(const Host& host, const FabricPort& one) {
  if (!host.inspection.has_value()) return false;
  const RailDecision& decision = decision_of(host);
  for (const Rail& rail : decision.plan.rails) {
    if (port_label(decision.machine, rail.port) != one.label) continue;
    return is_unused_second_port(decision.machine, rail.port) && sign_of_use(*one.port).empty();
  }
  return false;
}

Observation down_roce_port(const Host& host, const FabricPort& one, const std::string& evidence) {
  const RdmaNetdev* netdev = netdev_of(host, *one.port);
  const std::string name = one.port->netdevs.empty() ? "" : one.port->netdevs.front();
  if (netdev != nullptr && netdev->is_up.has_value() && !*netdev->is_up) {
    const std::string command = "ip link set dev " + topo::shell_word(name) + " up";
    return failure(one.label,
                   fmt::format("{}: its network interface {} is not set up", evidence, name),
                   command + ", and give it an address", {command});
  }
  if (netdev != nullptr && netdev->has_carrier.has_value() && !*netdev->has_carrier) {
    return failure(one.label, fmt::format("{}: {} is up and has no carrier", evidence, name),
                   fmt::format("look at the cable, the transceiver and the switch's port: ethtool "
                               "{0}; ethtool -m {0}",
                               topo::shell_word(name)));
  }
  return failure(one.label, evidence,
                 name.empty() ? "look at the cable, the switch's port and dmesg"
                              : "look at the cable, the switch's port and ip link show dev " +
                                    topo::shell_word(name));
}

Observation down_infiniband_port(const FabricPort& one, const std::string& evidence) {
  if (one.port->phys_state == PhysState::kDisabled) {
    return failure(
        one.label, evidence + ": the port is disabled",
        fmt::format("enable it at the switch, or here: ibportstate -C {0} -P {1} -D 0 {1} "
                    "enable",
                    topo::shell_word(one.hca->name), one.port->number));
  }
  return failure(one.label, evidence,
                 one.port->phys_state == PhysState::kPolling
                     ? "the port finds no peer: look at the cable and whether the switch's port is "
                       "enabled"
                     : "look at the cable, the switch's port and ibstat");
}

Observation inactive_port(const Host& host, const FabricPort& one) {
  const std::string evidence = port_state_text(*one.port);
  const bool is_up = one.port->state == LinkState::kInit || one.port->state == LinkState::kArmed;
  if (is_up && one.port->is_infiniband()) {
    return failure(one.label, evidence + ": the link is up and no subnet manager has activated it",
                   "start a subnet manager, on a managed switch or by opensm on one host of the "
                   "fabric (systemctl start opensm); sminfo shows which is the master");
  }
  return one.port->is_ethernet() ? down_roce_port(host, one, evidence)
                                 : down_infiniband_port(one, evidence);
}

Observation port_state_seen(const Host& host, const FabricPort& one) {
  const std::string evidence = port_state_text(*one.port);
  if (one.port->state == LinkState::kUnknown) {
    return unknown(one.label, "its state is unknown",
                   "mount /sys, or run it where libibverbs can open the HCA");
  }
  if (!one.excluded.empty()) {
    return ok(one.label,
              fmt::format("{}; not for the traffic of GPUs: {}", evidence, one.excluded));
  }
  if (one.port->is_active()) return ok(one.label, evidence);
  if (is_spare_port(host, one)) {
    return ok(one.label, evidence + "; no card of the model has its second port up");
  }
  return inactive_port(host, one);
}

// Without GPUs nothing says that every port should be in use.
void soften_spares(const Host& host, Observations* seen) {
  const bool any_active = std::any_of(seen->begin(), seen->end(), [](const Observation& one) {
    return one.verdict == Verdict::kOk;
  });
  if (has_rails(host) || !any_active) return;
  for (Observation& one : *seen) {
    if (one.verdict == Verdict::kFailure) one.verdict = Verdict::kWarning;
  }
}

}  // namespace

// Second ports that nothing shows to be in use have no cable, or the whole second plane is down.
void judge_port_states(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  if (decision.machine.gpus.empty()) return;  // else storage networks are rails, too
  for (const Rail& rail : decision.plan.rails) {
    const std::string label = port_label(decision.machine, rail.port);
    if (port_of(decision.machine, rail.port).state != Port::State::kDown) continue;
    std::string sign;
    if (is_unused_second_port(decision.machine, rail.port)) {
      const RdmaPort* port = rdma_port(host, label);
      if (port != nullptr) sign = sign_of_use(*port);
      if (sign.empty()) continue;
    }
    found->push_back({FindingKind::kPortDown, Severity::kError, label,
                      fmt::format("the port is down, and rail {} with it{}", rail.id,
                                  sign.empty() ? "" : "; it is in use: " + sign),
                      "look at the cable, the switch's port and ibstat; exclude a port that is not "
                      "in use: " +
                          exclude_text(host, {label})});
  }
}

Observations run_port_state(const Host& host) {
  Observations seen;
  for (const FabricPort& one : fabric_ports(host)) seen.push_back(port_state_seen(host, one));
  if (seen.empty()) return {no_fabric_port(host)};
  soften_spares(host, &seen);
  return seen;
}

}  // namespace gdr::tools::doctor

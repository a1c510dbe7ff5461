// Whether the ports are active, and if not, what keeps them from it.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"
#include "tools/topo/port_use.h"
#include "tools/topo/shell_lines.h"

namespace gdr::tools::doctor {
namespace {

std::string port_state_text(const RdmaPort& port) {
  return fmt::format("state {}, physical state {}", to_string(port.state),
                     to_string(port.phys_state));
}

// Whether the port is the second one of cards that all have it down, and nothing shows its use.
bool is_spare_port(const Host& host, const FabricPort& one) {
  if (!host.inspection.has_value()) return false;
  const topology::RailDecision& decision = host.inspection->decision;
  for (const topology::Rail& rail : decision.plan.rails) {
    if (topology::port_label(decision.machine, rail.port) != one.label) continue;
    return topo::is_unused_second_port(decision.machine, rail.port) &&
           topo::sign_of_use(host.inspection->sysfs_root, one.hca->name, one.port->number).empty();
  }
  return false;
}

Observation down_roce_port(const Host& host, const FabricPort& one, const std::string& evidence) {
  const RdmaNetdev* netdev = netdev_of(host, *one.port);
  const std::string name = one.port->netdevs.empty() ? "" : one.port->netdevs.front();
  if (netdev != nullptr && netdev->is_up.has_value() && !*netdev->is_up) {
    const std::string command = "ip link set dev " + topo::shell_word(name);
    return failure(one.label,
                   fmt::format("{}: its network interface {} is not set up", evidence, name),
                   command + " up, and give it an address",
                   {{"Sets the interface up.", command + " up", command + " down"}});
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
                   "fabric; nccl-gdr doctor --check subnet-manager");
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
  if (one.port->is_active()) return ok(one.label, evidence);
  if (!one.excluded.empty()) {
    return ok(one.label,
              fmt::format("{}; not for the traffic of GPUs: {}", evidence, one.excluded));
  }
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

Observations run_port_state(const Host& host) {
  Observations seen;
  for (const FabricPort& one : fabric_ports(host)) seen.push_back(port_state_seen(host, one));
  if (seen.empty()) return {no_fabric_port(host)};
  soften_spares(host, &seen);
  return seen;
}

}  // namespace

Check port_state() {
  return {.name = "port-state",
          .looks_at = "the state and the physical state of each port",
          .why =
              "A rail whose port is not active carries nothing: its GPU uses another rail, "
              "farther away and shared, or the job does not start.",
          .cost = Cost::kHalves,
          .kinds = {FindingKind::kPortDown},
          .of_silent_file = silent_file::of_port_states,
          .run = run_port_state};
}

}  // namespace gdr::tools::doctor

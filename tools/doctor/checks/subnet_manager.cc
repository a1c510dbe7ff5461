// Whether a subnet manager looks after the InfiniBand ports.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/checks/fabric_ports.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kStartManager[] =
    "start a subnet manager, on a managed switch or by opensm on one host of the fabric "
    "(systemctl start opensm); sminfo shows which is the master";

// The permissive LID, which a port has that was not configured (IBTA 4.1.3).
constexpr int kPermissiveLid = 0xffff;

bool is_assigned(const std::optional<int>& lid) {
  return lid.has_value() && *lid != 0 && *lid != kPermissiveLid;
}

Observation manager_of(const FabricPort& one) {
  const RdmaPort& port = *one.port;
  if (port.state == LinkState::kInit || port.state == LinkState::kArmed) {
    return failure(one.label,
                   fmt::format("the link is up, and the port waits in {} for a subnet manager",
                               to_string(port.state)),
                   kStartManager);
  }
  if (!port.is_active()) return ok(one.label, "not active: see port-state");
  if (!port.lid) return unknown(one.label, "its LID is unknown", "mount /sys");
  if (!is_assigned(port.lid)) {
    return failure(one.label, fmt::format("the port is active with LID {}", *port.lid),
                   kStartManager);
  }
  if (!port.sm_lid) return ok(one.label, fmt::format("LID {}", *port.lid));
  if (!is_assigned(port.sm_lid)) {
    return warning(one.label,
                   fmt::format("LID {}, but the LID of the subnet manager is {} (sm_lid)",
                               *port.lid, *port.sm_lid),
                   kStartManager);
  }
  return ok(one.label, fmt::format("LID {}, subnet manager at LID {}", *port.lid, *port.sm_lid));
}

Observations run_subnet_manager(const Host& host) {
  Observations seen;
  for (const FabricPort& one : judged_ports(host)) {
    if (one.port->is_infiniband()) seen.push_back(manager_of(one));
  }
  if (seen.empty()) return {nothing_on(host, "there is no InfiniBand port to look at")};
  return seen;
}

}  // namespace

Check subnet_manager() {
  return {.name = "subnet-manager",
          .looks_at = "the LIDs of InfiniBand ports and of their subnet manager",
          .why =
              "An InfiniBand port carries nothing until a subnet manager has configured it, and "
              "a fabric without one does not route around failures.",
          .cost = Cost::kStops,
          .run = run_subnet_manager};
}

}  // namespace gdr::tools::doctor

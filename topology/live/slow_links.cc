#include "topology/live/slow_links.h"

#include <algorithm>

namespace gdr::topology {
namespace {

// Whether the ports are of one model and link layer. One port of a card can be on InfiniBand and
// another on Ethernet, which need not have one speed.
bool are_alike(const Machine& machine, PortRef a, PortRef b) {
  return hca_of(machine, a).ids == hca_of(machine, b).ids &&
         port_of(machine, a).link_layer == port_of(machine, b).link_layer;
}

// Returns the speed of the fastest rail on a card of the same model in Mb/s.
int model_speed(const Machine& machine, const RailPlan& plan, const Rail& rail) {
  if (hca_of(machine, rail.port).ids.vendor == 0) return 0;
  int speed = 0;
  for (const Rail& other : plan.rails) {
    if (!other.usable || !are_alike(machine, rail.port, other.port)) continue;
    speed = std::max(speed, link_speed(machine, other.port));
  }
  return speed;
}

}  // namespace

int link_speed(const Machine& machine, PortRef ref) {
  const Port& port = port_of(machine, ref);
  return port.link_mbps > 0 ? port.link_mbps : port.speed_mbps;
}

void warn_of_slow_links(const Machine& machine, const RailPlan& plan, Findings* findings) {
  for (const Rail& rail : plan.rails) {
    const int speed = link_speed(machine, rail.port);
    const int others = model_speed(machine, plan, rail);
    if (!rail.usable || speed == 0 || speed >= others) continue;
    findings->push_back({FindingKind::kSlowLink, Severity::kWarning, port_label(machine, rail.port),
                         "the link runs at " + std::to_string(speed / 1000) +
                             " Gb/s, where rails on cards of the same model have " +
                             std::to_string(others / 1000) + " Gb/s",
                         "look at the cable, the switch's port and the link's error counters"});
  }
}

}  // namespace gdr::topology

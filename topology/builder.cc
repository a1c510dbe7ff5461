#include "topology/builder.h"

#include <algorithm>

namespace gdr::topology {
namespace {

int host_bridge_index(Machine* machine, const std::optional<HostBridge>& bridge) {
  if (!bridge.has_value()) return -1;
  auto& all = machine->host_bridges;
  auto found = std::find(all.begin(), all.end(), *bridge);
  if (found == all.end()) found = all.insert(all.end(), *bridge);
  return static_cast<int>(found - all.begin());
}

int find_switch(const Machine& machine, const Bdf& bdf) {
  for (size_t i = 0; i < machine.switches.size(); ++i) {
    if (machine.switches[i].bdf == bdf) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

int numa_index(Machine* machine, int id) {
  auto& all = machine->numa_nodes;
  auto found =
      std::find_if(all.begin(), all.end(), [id](const NumaNode& node) { return node.id == id; });
  if (found == all.end()) found = all.insert(all.end(), NumaNode{id, -1, ""});
  return static_cast<int>(found - all.begin());
}

// The nearest switch is the second bridge above the function, so the number of bridges decides
// whether the first of the list counts.
std::optional<size_t> topmost_switch(const PciPosition& position) {
  size_t count = position.bridges.size();
  return count < 2 ? std::nullopt : std::optional<size_t>(count % 2);
}

Attachment attach(Machine* machine, const PciPosition& position) {
  Attachment at{-1, numa_index(machine, position.numa),
                host_bridge_index(machine, position.host_bridge)};
  for (size_t i = topmost_switch(position).value_or(0); i + 1 < position.bridges.size(); i += 2) {
    const Bridge& bridge = position.bridges[i];
    int known = find_switch(*machine, bridge.bdf);
    if (known < 0) {
      known = static_cast<int>(machine->switches.size());
      machine->switches.push_back(
          Switch{bridge.bdf, at, bridge.class_code, bridge.ids, bridge.link});
    }
    at = machine->switches[known].at;
    at.order = -1;  // which is the switch's own
    at.parent = known;
  }
  return at;
}

}  // namespace gdr::topology

// What makes NCCL use the rails of each GPU, as lines for a shell: a rail map, a policy or a
// topology file.
#include <algorithm>

#include "tools/topo/env_parts.h"
#include "tools/topo/rdma_devices.h"
#include "tools/topo/shell_lines.h"
#include "tools/topo/short_list.h"
#include "topology/live/rail_agreement.h"

namespace gdr::tools::topo {
namespace {

std::string joined(const Machine& machine, const std::vector<PortRef>& ports) {
  std::vector<std::string> labels;
  for (PortRef port : ports) labels.push_back(port_label(machine, port));
  return labels.empty() ? "none" : short_list(labels);
}

// Returns the GPUs that NCCL serves worse than the rails would; with a map, which overrides
// distance, all that do not follow it.
std::vector<std::string> badly_served(const RailDecision& decision, bool has_map) {
  std::vector<std::string> gpus;
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if ((one.as_good && !has_map) || !has_rdma_rail(decision.machine, one)) continue;
    gpus.push_back(gpu_label(one.gpu) + " " + joined(decision.machine, one.chosen) +
                   " instead of " + joined(decision.machine, one.rails));
  }
  return gpus;
}

// Returns the network interfaces that the map gives to GPUs by their names.
std::vector<std::string> interfaces_in_map(const RailDecision& decision, const std::string& map) {
  std::vector<std::string> interfaces;
  for (const Rail& rail : decision.plan.rails) {
    const std::string& name = hca_of(decision.machine, rail.port).name;
    if (!is_rdma_port(decision.machine, rail.port) && map.find(name) != std::string::npos) {
      interfaces.push_back(name);
    }
  }
  return interfaces;
}

}  // namespace

std::string remedy_lines(bool has_map, RailDecision* decision) {
  const std::vector<std::string> bad = badly_served(*decision, has_map);
  if (bad.empty()) return "";
  const std::string why = comment("NCCL would use " + short_list(bad) + ".");
  for (const topology::Remedy& remedy : topology::remedies(*decision)) {
    if (!badly_served(remedy.decision, has_map).empty()) continue;
    *decision = remedy.decision;
    if (!remedy.value.empty()) {
      return why + comment("With this it follows the rails, or serves GPUs as well.") +
             export_line(remedy.name.c_str(), remedy.value);
    }
    return why +
           comment("With a topology file it follows the rails, made once on each kind of node:") +
           comment("  nccl-gdr topo --nccl-xml --grouped > FILE; export NCCL_TOPO_FILE=FILE");
  }
  return why + comment("No setting makes NCCL follow all rails.");
}

std::string map_lines(const Inspection& inspection, const UserSetting& map) {
  const auto interfaces = interfaces_in_map(inspection.decision, map.value);
  if (!interfaces.empty()) {
    return comment(std::string(kRailMapVariable) + " cannot be set: " + short_list(interfaces) +
                   " is no RDMA device, and NCCL uses it by sockets.");
  }
  if (std::string nameless = nameless_line(inspection.decision, kRailMapVariable);
      !nameless.empty()) {
    return nameless;
  }
  return comment("As given by " + origin_text(inspection.settings, kRailMapVariable) + ".") +
         export_line(kRailMapVariable, map.value);
}

}  // namespace gdr::tools::topo

#include "plugin/rail_policy.h"

#include <algorithm>

namespace gdr::plugin {
namespace {

constexpr size_t kMostDevices = 128;  // NCCL's proxy has an array of so many (NCCL_MAX_NETDEVS)

// Whether the map has an entry for the GPU.
bool is_in(const topology::RailMap& map, const topology::Machine& machine, size_t gpu) {
  return std::any_of(map.entries().begin(), map.entries().end(), [&](const auto& entry) {
    return entry.bdf ? machine.gpus[gpu].bdf == *entry.bdf : entry.index == static_cast<int>(gpu);
  });
}

// The class of the path to the nearest HCA that is offered.
topology::PathClass nearest_path(const topology::RailDecision& decision, size_t gpu) {
  topology::PathClass nearest = topology::PathClass::kSys;
  for (topology::PortRef port : topology::usable_ports(decision.plan)) {
    nearest = std::min(nearest, decision.paths.gpu_hca(gpu, static_cast<size_t>(port.hca)));
  }
  return nearest;
}

// The switches of a grouped file would lead GPUDirect over PCIe in place of NVLink-C2C.
bool may_have_c2c(const topology::Machine& machine) {
  return machine.cpu.arch == "arm64" ||
         std::ranges::any_of(machine.gpus,
                             [](const topology::Gpu& gpu) { return gpu.c2c_links > 0; });
}

}  // namespace

std::vector<OfferedPort> offered_ports(const topology::RailDecision& decision,
                                       const std::vector<topology::VerbsPort>& ports,
                                       std::vector<discovery::SkippedPort>* skipped) {
  std::vector<OfferedPort> offered;
  for (const topology::Rail& rail : decision.plan.rails) {
    const topology::Hca& hca = decision.machine.hcas[rail.port.hca];
    const int number = hca.ports[rail.port.port].number;
    for (size_t i = 0; i < ports.size(); ++i) {
      if (!ports[i].active || ports[i].hca != hca.name || ports[i].number != number) continue;
      if (offered.size() < kMostDevices) {
        offered.push_back({i, rail.port, rail.id});
        continue;
      }
      skipped->push_back(
          {FindingKind::kPortExcluded, topology::port_label(decision.machine, rail.port),
           "is beyond the " + std::to_string(kMostDevices) + " devices for which NCCL has room"});
    }
  }
  return offered;
}

std::vector<discovery::SkippedPort> excluded_ports(const topology::RailDecision& decision) {
  std::vector<discovery::SkippedPort> excluded;
  for (const topology::ExcludedPort& other : decision.plan.excluded) {
    excluded.push_back(
        {FindingKind::kPortExcluded, topology::port_label(decision.machine, other.port),
         "excluded: " + other.reason + " (name it in NCCL_IB_HCA to use it all the same)"});
  }
  return excluded;
}

std::optional<Finding> ignored_map(const topology::RailDecision& decision,
                                   const config::Options& options) {
  if (!options.rail_map.has_value()) return std::nullopt;
  constexpr char kFile[] =
      "set NCCL_TOPO_FILE to what `nccl-gdr topo --nccl-xml --grouped` prints; `nccl-gdr topo` "
      "shows what NCCL will choose";
  const bool has_choice = topology::usable_ports(decision.plan).size() > 1;
  if (has_choice && topology::is_flat(decision) && !may_have_c2c(decision.machine)) {
    return Finding{FindingKind::kRailMapIgnored, Severity::kWarning, "",
                   "NCCL chooses by distance, of which this machine shows nothing, and may not "
                   "follow GDR_NCCL_RAIL_MAP",
                   kFile};
  }
  std::string names;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (!is_in(*options.rail_map, decision.machine, gpu)) continue;
    if (decision.plan.gpus[gpu].path <= nearest_path(decision, gpu)) continue;
    names += (names.empty() ? "GPU" : ", GPU") + std::to_string(gpu);
  }
  if (names.empty()) return std::nullopt;
  return Finding{FindingKind::kRailMapIgnored, Severity::kWarning, "",
                 "NCCL chooses by distance and will not follow GDR_NCCL_RAIL_MAP for " + names +
                     ", to which another HCA is nearer",
                 std::string("take these GPUs out of the map, or ") + kFile};
}

}  // namespace gdr::plugin

#include "topology/rail_candidates.h"

#include "topology/slow_ports.h"

namespace gdr::topology {
namespace {

// Excludes virtual functions beside their physical ones: they share a port, so that both together
// are not faster than one.
void exclude_virtual_functions(const Machine& machine, std::vector<RailCandidate>* ports) {
  for (RailCandidate& port : *ports) {
    const Hca& hca = machine.hcas[port.ref.hca];
    if (port.named != nullptr || !hca.physical_function.has_value()) continue;
    for (const Hca& other : machine.hcas) {
      if (other.bdf != hca.physical_function) continue;
      port.excluded = "a virtual function of " + other.name + ", whose link it shares";
    }
  }
}

std::string far_reason(const Machine& machine, const PathTable& paths, int hca, size_t gpu,
                       int nearer) {
  return std::string("no GPU is nearest to it: at best ") + to_string(paths.gpu_hca(gpu, hca)) +
         " (GPU" + std::to_string(gpu) + "), which has " + machine.hcas[nearer].name + " at " +
         to_string(paths.gpu_hca(gpu, nearer));
}

// Excludes ports that are not among the nearest ports of any GPU. Ports that are down count like
// those that are up: a link that fails must neither turn the storage network into a rail nor
// renumber rails.
void exclude_far(const Machine& machine, const PathTable& paths,
                 std::vector<RailCandidate>* ports) {
  std::vector<int> nearest(machine.gpus.size(), -1);
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (const RailCandidate& port : *ports) {
      if (!port.excluded.empty()) continue;
      int hca = port.ref.hca;
      if (nearest[gpu] < 0 || paths.gpu_hca(gpu, hca) < paths.gpu_hca(gpu, nearest[gpu])) {
        nearest[gpu] = hca;
      }
    }
  }
  for (RailCandidate& port : *ports) {
    if (port.named != nullptr || !port.excluded.empty()) continue;
    size_t closest = 0;
    bool near = false;
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
      PathClass path = paths.gpu_hca(gpu, port.ref.hca);
      near = near || path == paths.gpu_hca(gpu, nearest[gpu]);
      if (path < paths.gpu_hca(closest, port.ref.hca)) closest = gpu;
    }
    if (near) continue;
    port.excluded = far_reason(machine, paths, port.ref.hca, closest, nearest[closest]);
  }
}

}  // namespace

std::vector<RailCandidate> all_ports(const Machine& machine, const std::vector<NamedPort>& named) {
  std::vector<RailCandidate> ports;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    for (size_t port = 0; port < machine.hcas[hca].ports.size(); ++port) {
      RailCandidate candidate{{static_cast<int>(hca), static_cast<int>(port)}, nullptr, ""};
      for (const NamedPort& one : named) {
        bool same_port = one.port < 0 || one.port == machine.hcas[hca].ports[port].number;
        if (one.hca == machine.hcas[hca].name && same_port) candidate.named = &one;
      }
      ports.push_back(candidate);
    }
  }
  return ports;
}

std::vector<RailCandidate> rail_candidates(const Machine& machine, const PathTable& paths,
                                           const std::vector<NamedPort>& named) {
  std::vector<RailCandidate> ports = all_ports(machine, named);
  exclude_virtual_functions(machine, &ports);
  if (machine.gpus.empty()) return ports;
  exclude_slow_ports(machine, paths, &ports);
  exclude_far(machine, paths, &ports);
  return ports;
}

}  // namespace gdr::topology

#include "topology/rail_candidates.h"

#include <algorithm>

namespace gdr::topology {
namespace {

std::string gbps(int mbps) { return std::to_string(mbps / 1000) + " Gb/s"; }

// Excludes virtual functions beside their physical ones: they share a port, so that both together
// are no faster than one.
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

// Returns whether port a is as near as port b, or nearer, for every GPU.
bool is_as_near_for_all(const Machine& machine, const PathTable& paths, PortRef a, PortRef b) {
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (paths.gpu_hca(gpu, a.hca) > paths.gpu_hca(gpu, b.hca)) return false;
  }
  return true;
}

// Returns the speed of a port in Mb/s, or 0 where it is unknown. What a port that is down reports
// means nothing, so it counts with the speed of a port that is up on a card with the same ids.
int speed_of(const Machine& machine, const std::vector<RailCandidate>& ports, PortRef ref) {
  const Port& port = port_of(machine, ref);
  if (port.state != Port::State::kDown) return port.speed_mbps;
  const PciIds& ids = machine.hcas[ref.hca].ids;
  int speed = 0;
  for (const RailCandidate& other : ports) {
    const Port& up = port_of(machine, other.ref);
    bool same_make = ids.vendor != 0 && machine.hcas[other.ref.hca].ids == ids;
    if (same_make && up.state != Port::State::kDown) speed = std::max(speed, up.speed_mbps);
  }
  return speed;
}

// Excludes slow ports, since storage and management networks are slower than the network of the
// GPUs. A slower port may still be the better rail for a GPU that it is nearer to. So a port is
// slow only where it has half the speed of a port that is no farther from any GPU, or a quarter of
// any port's.
void exclude_slow(const Machine& machine, const PathTable& paths,
                  std::vector<RailCandidate>* ports) {
  for (RailCandidate& port : *ports) {
    int speed = speed_of(machine, *ports, port.ref);
    if (port.named != nullptr || !port.excluded.empty() || speed == 0) continue;
    for (const RailCandidate& other : *ports) {
      int fast = speed_of(machine, *ports, other.ref);
      bool slow = fast >= 4 * speed ||
                  (fast >= 2 * speed && is_as_near_for_all(machine, paths, other.ref, port.ref));
      if (!slow) continue;
      port.excluded = "slow: " + gbps(speed) + ", where " + port_name(machine, other.ref) +
                      " has " + gbps(fast);
      break;
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
  if (machine.gpus.empty()) return;
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
  exclude_slow(machine, paths, &ports);
  exclude_far(machine, paths, &ports);
  return ports;
}

}  // namespace gdr::topology

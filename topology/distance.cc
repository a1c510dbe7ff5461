#include "topology/distance.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace gdr::topology {
namespace {

// Returns the switches above, the nearest first.
std::vector<int> switches_above(const Machine& machine, Attachment at) {
  std::vector<int> above;
  for (int i = counted_switch(machine, at); i >= 0; i = counted_switch(machine, at)) {
    above.push_back(i);
    at = machine.switches[i].at;
  }
  return above;
}

// Returns the number of switches on the path. The switch at which the two paths up meet counts
// once.
int switches_between(const Machine& machine, const Attachment& a, const Attachment& b) {
  const std::vector<int> from = switches_above(machine, a), to = switches_above(machine, b);
  for (size_t i = 0; i < from.size(); ++i) {
    const auto meet = std::find(to.begin(), to.end(), from[i]);
    if (meet != to.end()) return static_cast<int>(i) + static_cast<int>(meet - to.begin()) + 1;
  }
  return static_cast<int>(from.size() + to.size());
}

bool differ(int a, int b) { return a >= 0 && b >= 0 && a != b; }

int numa_latency(const NumaNode& a, const NumaNode& b) {
  constexpr int kWithin = 10, kRemote = 20;
  if (a.id == b.id) return kWithin;
  const auto stated = a.distances.find(b.id);
  if (stated != a.distances.end()) return stated->second;
  if (a.id < 0 || b.id < 0) return kRemote;
  return kRemote + std::bit_width(static_cast<unsigned>(a.id ^ b.id));
}

}  // namespace

Distance distance_between(const Machine& machine, const PathTable& paths, size_t gpu, size_t hca) {
  const Attachment& a = machine.gpus[gpu].at;
  const Attachment& b = machine.hcas[hca].at;
  Distance distance;
  distance.path = paths.gpu_hca(gpu, hca);
  distance.switches = switches_between(machine, a, b);
  if (distance.path < PathClass::kPhb) return distance;
  distance.other_host_bridge = differ(a.host_bridge, b.host_bridge);
  if (a.numa < 0 || b.numa < 0) return distance;
  const NumaNode& from = machine.numa_nodes[a.numa];
  const NumaNode& to = machine.numa_nodes[b.numa];
  distance.other_package = differ(from.package, to.package);
  distance.numa_latency = numa_latency(from, to);
  return distance;
}

}  // namespace gdr::topology

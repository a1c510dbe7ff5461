// How far a GPU is from an HCA, finer than in path classes: what breaks the ties that a class
// leaves.
#pragma once

#include <compare>
#include <cstddef>

#include "topology/path_class.h"

namespace gdr::topology {

// The members are compared in this order, and the smaller is the nearer. Below a host bridge
// (kPix, kPxb) only the switches count. Beyond it the socket comes first, since the link between
// sockets is the narrowest and slowest part of such a path, and the switches come last.
struct Distance {
  PathClass path = PathClass::kSys;
  bool other_package = false;  // false also where the package of either is unknown
  // Relative latency between the NUMA nodes: 10 within a node. Where the source states no distances
  // it is above 20, the value that Linux assumes for any other node (REMOTE_DISTANCE), and the
  // smaller, the more leading bits the numbers of the nodes have in common: firmware numbers the
  // nodes of a socket in a row, so that 0 to 3 are one socket of a server with eight nodes.
  int numa_latency = 10;
  bool other_host_bridge = false;  // false also where the host bridge of either is unknown
  int switches = 0;                // on the path, as path classes count them
  auto operator<=>(const Distance&) const = default;
};

// Indexes are those of Machine::gpus and Machine::hcas; `paths` is of the same machine.
Distance distance_between(const Machine& machine, const PathTable& paths, size_t gpu, size_t hca);

}  // namespace gdr::topology

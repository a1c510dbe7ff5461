// Which ports of a machine carry the traffic of GPUs, and which belong to storage or management
// networks.
#pragma once

#include <string>
#include <vector>

#include "topology/path_class.h"
#include "topology/ports.h"

namespace gdr::topology {

// A port that NCCL_IB_HCA names in full ("mlx5_0" or "mlx5_0:1", not a prefix such as "mlx5"). It
// is a rail whatever its speed and its distance from the GPUs.
struct NamedPort {
  std::string hca;
  int port = -1;  // -1: all ports
  int rail = -1;  // the number that the user gave; -1: none
};

// A port that is a rail unless there is a reason for excluding it.
struct RailCandidate {
  PortRef ref;
  const NamedPort* named = nullptr;  // null: not named by the user
  std::string excluded;              // the reason for excluding it; "" for a rail
};

// Returns all ports of the machine, in its order, none of them excluded. They point into `named`.
std::vector<RailCandidate> all_ports(const Machine& machine, const std::vector<NamedPort>& named);

// Returns all ports of the machine. A port is excluded, unless the user named it, where
//
// - it is a virtual function beside its physical one,
// - it is slow (slow_ports.h), or
// - no GPU has it among its nearest ports.
//
// The first reason that applies is given. On a machine without GPUs only the first rule applies.
std::vector<RailCandidate> rail_candidates(const Machine& machine, const PathTable& paths,
                                           const std::vector<NamedPort>& named);

}  // namespace gdr::topology

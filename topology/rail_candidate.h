// A port that may become a rail.
#pragma once

#include <string>

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

}  // namespace gdr::topology

// The rails of a machine, and which GPU uses which of them.
#pragma once

#include <string>
#include <vector>

#include "topology/path_class.h"
#include "topology/ports.h"

namespace gdr::topology {

struct Rail {
  int id = 0;  // the number that users see, which need not be the position in RailPlan::rails
  PortRef port;
  // A rail whose port is down is not usable: no GPU is assigned to it, but it keeps its number, so
  // that one link that is down on one machine does not renumber the others.
  bool usable = true;
  std::string why_not;  // "" for a usable rail
};

// An HCA port that carries no GPU's traffic, such as one of the storage network.
struct ExcludedPort {
  PortRef port;
  std::string reason;  // "slow: 25 Gb/s, where mlx5_1 has 400 Gb/s"
};

struct GpuRails {
  std::vector<int> rails;  // positions in RailPlan::rails, the nearest first; empty: none is usable
  PathClass path = PathClass::kSys;  // to the first of them
};

struct RailPlan {
  std::vector<Rail> rails;  // in the order of their numbers
  std::vector<ExcludedPort> excluded;
  std::vector<GpuRails> gpus;  // parallel to Machine::gpus

  // Returns the rails of a GPU, the nearest first. The pointers are valid until `rails` changes.
  std::vector<const Rail*> rails_of(size_t gpu) const;
  // Returns the first of them, or null where the GPU has none.
  const Rail* first_rail_of(size_t gpu) const;
};

// Returns the rail of a port as a position in RailPlan::rails, or -1 where the port is excluded.
int rail_of(const RailPlan& plan, PortRef port);

// Returns the ports of the usable rails, in their order: what is offered to NCCL as its devices.
std::vector<PortRef> usable_ports(const RailPlan& plan);

// Sets GpuRails::path of every GPU from the table.
void set_own_paths(const PathTable& paths, RailPlan* plan);

}  // namespace gdr::topology

// Which HCA port each GPU uses: its rail. NCCL_NET_GDR_LEVEL has no influence on rails. NCCL
// decides by it whether a transfer uses GPUDirect RDMA; gdr_level.h computes that decision so that
// the plugin can report it.
//
// Rails depend on nothing but the shape of the whole machine, whatever part of it a process can
// see. So rail i is the same port on every machine of a kind and in every process, as NCCL
// requires.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/path_class.h"
#include "topology/ports.h"
#include "topology/rail_candidates.h"
#include "topology/rail_map.h"

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

struct RailOptions {
  std::vector<NamedPort> named;
  std::optional<RailMap> map;  // overrides everything else
};

// Decides which ports are rails, numbers them and assigns them to GPUs. The machine must be sorted
// (see sort()). Without a map:
//
// 1. rail_candidates() excludes ports.
// 2. The other ports are rails, numbered by PCI address.
// 3. Each GPU gets the usable rails that are nearest to it. GPUs with the same nearest rails divide
//    them: with as many rails as GPUs one each, with more a block of neighbours each, with fewer in
//    turn.
//
// Fails with kInvalidUsage where options.map does not fit the machine, and only there; the text
// names the GPUs or HCAs that exist.
Result<RailPlan> plan_rails(const Machine& machine, const PathTable& paths,
                            const RailOptions& options);

// Returns the rail of a port as a position in RailPlan::rails, or -1 where the port is excluded.
int rail_of(const RailPlan& plan, PortRef port);

// Sets GpuRails::path of every GPU from the table.
void set_own_paths(const PathTable& paths, RailPlan* plan);

}  // namespace gdr::topology

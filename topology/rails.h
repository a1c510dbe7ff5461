// Which HCA port each GPU uses: its rail. NCCL_NET_GDR_LEVEL has no influence on rails. NCCL
// decides by it whether a transfer uses GPUDirect RDMA; gdr_level.h computes that decision so that
// the plugin can report it.
//
// Rails depend on nothing but the shape of the whole machine, whatever part of it a process can
// see. So rail i is the same port on every machine of a kind and in every process, as NCCL
// requires.
#pragma once

#include <optional>
#include <vector>

#include "topology/rail_candidate.h"
#include "topology/rail_map.h"
#include "topology/rail_plan.h"

namespace gdr::topology {

struct RailOptions {
  std::vector<NamedPort> named;
  std::optional<RailMap> map;  // overrides everything else
};

// Decides which ports are rails, numbers them and assigns them to GPUs. The machine must be sorted
// (see sort()). Without a map:
//
// 1. rail_candidates() excludes ports.
// 2. The other ports are rails, numbered by PCI address.
// 3. assign_rails() gives them to GPUs.
//
// Fails with kInvalidUsage where options.map does not fit the machine, and only there; the text
// names the GPUs or HCAs that exist.
Result<RailPlan> plan_rails(const Machine& machine, const PathTable& paths,
                            const RailOptions& options);

}  // namespace gdr::topology

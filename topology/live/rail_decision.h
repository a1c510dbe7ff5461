// What the plugin decided about rails, and why: what it logs at init and `nccl-gdr topo` shows.
#pragma once

#include <string>
#include <vector>

#include "plugin/config/options.h"
#include "topology/gdr_level.h"
#include "topology/live/notes.h"
#include "topology/rails.h"

namespace gdr::topology {

struct RailDecision {
  Machine machine;
  PathTable paths{machine};
  RailPlan plan;
  GdrPolicy policy;
  Notes notes;
};

// A map that does not fit the machine is warned about, and rails are by distance.
RailDecision decide(Machine machine, const config::Options& options, Notes notes);

// The map as the log has it: one line a GPU with its rails, path class and GPUDirect verdict, then
// one a rail without a GPU, and one a port that is no rail.
std::vector<std::string> describe(const RailDecision& view);

// Every GPU is equally far from every rail, and no nearer than PHB: the tree tells nothing.
bool is_flat(const RailDecision& view);

}  // namespace gdr::topology

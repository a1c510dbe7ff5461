// A machine whose tree shows the rails.
#pragma once

#include "topology/model.h"
#include "topology/rails.h"

namespace gdr::topology {

// The same machine with each HCA put beside the GPU whose first rail it is, one switch for each
// group, for machines whose tree hides how devices lie (virtual machines) or with a rail map.
Machine group_under_switches(const Machine& machine, const RailPlan& plan);

}  // namespace gdr::topology

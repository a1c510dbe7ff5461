// What the renderers show: a machine with what was decided about it.
#pragma once

#include "topology/gdr_level.h"
#include "topology/model.h"
#include "topology/path_class.h"
#include "topology/rails.h"

namespace gdr::topology {

struct View {
  const Machine& machine;
  const PathTable& paths;
  const RailPlan& plan;
  const GdrPolicy& policy;
};

}  // namespace gdr::topology

// The decision without the settings by which a user keeps GPUs off their ports.
#pragma once

#include "plugin/config/options.h"
#include "tools/topo/inspection.h"

namespace gdr::tools::topo {

// Fills Inspection::unrestricted, restricted_by and restricting; `all` is the machine with all of
// its ports.
void decide_unrestricted(const topology::Machine& all, const config::Options& settings,
                         Inspection* inspection);

}  // namespace gdr::tools::topo

// Decides the rails of a machine as the plugin would: of this machine, or of one in a file.
#pragma once

#include "base/result.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {

// Returns the decision, and what it does not cover. The HCAs of a live machine are those that the
// verbs library lists, or those of sysfs where it cannot be loaded. Fails with kInvalidUsage or
// kInvalidArgument where one of the options cannot be used, and with another code where the machine
// cannot be read.
Result<Inspection> inspect(const InspectOptions& options);

}  // namespace gdr::tools::topo

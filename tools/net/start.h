// Starting a plugin as a run needs it: initialised, with at least one device. The errors say what
// to do, with the command that was called ("perf sendrecv").
#pragma once

#include <string>

#include "base/result.h"
#include "tools/net/net.h"

namespace gdr::tools {

// Initialises the plugin with a logger that prints warnings where NCCL_DEBUG is not set. Returns
// the context, which the caller finalizes.
Result<void*> init_plugin(Net& net, const InitArguments& settings, const std::string& command);

// Returns the number of devices, which is above 0.
Result<int> count_devices(Net& net, const std::string& command);

}  // namespace gdr::tools

// NCCL's logger as the sink of base/log.h.
#pragma once

#include "plugin/abi/nccl_types.h"

namespace gdr::plugin {

// Sends all lines to `logger` from here on; null discards them. The library that contains the
// logger stays loaded until the process ends, since a thread of the plugin may log after the
// application has closed NCCL, and be inside a former logger when NCCL is loaded anew and passes
// another.
void use_logger(abi::ncclDebugLogger_t logger);

}  // namespace gdr::plugin

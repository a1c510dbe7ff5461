// The NCCL that has loaded the plugin.
#pragma once

namespace gdr::plugin {

// Returns what ncclGetVersion of the library that contains `address` returns, 22705 for 2.27.5; 0
// where it has none. An address in the program itself is looked up there.
int version_of_library(const void* address);

}  // namespace gdr::plugin

// The tool is NCCL's library to a plugin, which may ask it for its release (ncclGetVersion).
#pragma once

namespace gdr::tools {

// Sets what ncclGetVersion() returns in this process, 22605 for 2.26.5. Before that it returns the
// newest release whose rules the plugin knows. To be called before the plugin is loaded.
void report_nccl_version(int version);

}  // namespace gdr::tools

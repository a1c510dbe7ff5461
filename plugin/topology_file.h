// NCCL topology files made by the plugin, for machines whose PCI tree shows too little. NCCL reads
// NCCL_TOPO_FILE only after it has initialised its network plugins (commAlloc in its src/init.cc),
// so a plugin can set it; other plugins do the same.
#pragma once

#include <string>

#include "base/result.h"

namespace gdr::plugin {

// Writes `xml` to a memory file, which lives as long as the process, sets NCCL_TOPO_FILE to its
// name and returns the name, such as "/proc/self/fd/37". A file on disk would outlive a killed
// process. The variable is set as base/environment_swap.h describes, since other threads may read
// the environment. Fails with kSystem, NCCL_TOPO_FILE unchanged.
Result<std::string> publish_topology(const std::string& xml);

// Returns whether `file` is a name that publish_topology() made in a parent process and that means
// nothing in this one: children inherit NCCL_TOPO_FILE, but not the memory file.
bool is_dangling_topology(const std::string& file);

}  // namespace gdr::plugin

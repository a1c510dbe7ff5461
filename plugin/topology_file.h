// A NCCL topology file of our making, for machines whose own tree says too little.
#pragma once

#include <string>

#include "base/result.h"

namespace gdr::plugin {

// Keeps `xml` in memory for the life of the process and sets NCCL_TOPO_FILE to it; returns the
// name.
Result<std::string> publish_topology(const std::string& xml);

// NCCL_TOPO_FILE as a parent process set it for itself: names a file that only it has.
bool is_dangling_topology(const std::string& file);

}  // namespace gdr::plugin

// A GPU's NVLinks and NVLink-C2C, as the picture words them.
#pragma once

#include <string>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

// Returns a GPU's links (of AMD: xGMI) in short: "NVLink x18, C2C x5", "NVLink to GPU1 x2, GPU3
// x4";
// "" for none, and "NVLink unknown" where the source does not state them.
std::string gpu_links_text(const Machine& machine, size_t gpu);

}  // namespace gdr::tools::topo

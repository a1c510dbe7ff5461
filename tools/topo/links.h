// What lies between devices, as the picture words it: NVLinks, NVLink-C2C, and the narrowest PCIe
// link of a path.
#pragma once

#include <string>
#include <vector>

#include "tools/inspection/labels.h"

namespace gdr::tools::topo {

// Returns a GPU's links (of AMD: xGMI) in short: "NVLink x18, C2C x5", "NVLink to GPU1 x2, GPU3
// x4";
// "" for none, and "NVLink unknown" where the source does not state them.
std::string gpu_links_text(const Machine& machine, size_t gpu);

// Returns the narrowest of the PCIe links on the path between a GPU and an HCA. Links of unknown
// speed or width do not count; {} where none is known.
PciLink narrowest_link(const Machine& machine, const Attachment& gpu, const PciLink& gpu_link,
                       const Attachment& hca, const PciLink& hca_link);

// Returns the words on the line of a pair: "PIX, 32 GT/s x16".
std::string pair_text(const RailDecision& decision, const RailPair& pair);

}  // namespace gdr::tools::topo

// PCI Access Control Services (ACS) where they slow GPUDirect down.
//
// A switch port with the ACS bits "P2P Request Redirect" or "P2P Completion Redirect" sends traffic
// between two devices below the switch up to the root complex and back (PCI Express Base
// Specification, "Access Control Services"). GPUDirect then works, but at the CPU's bandwidth.
#pragma once

#include <filesystem>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Appends to decision->findings a warning for each GPU and HCA of its rails that share a switch and
// would use GPUDirect, where ACS redirects their traffic; an info where the bits cannot be read,
// which takes CAP_SYS_ADMIN. Does nothing for a machine read from a topology file, whose tree is
// not the one that sysfs shows.
void add_acs_findings(RailDecision* decision, const std::filesystem::path& sysfs_root = "/sys");

}  // namespace gdr::topology

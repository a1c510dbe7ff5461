// What PCI's Access Control Services do to GPUDirect, said once where they are in its way.
#pragma once

#include <filesystem>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Adds to the notes of a live machine: a warning for each GPU and HCA of its rails that share a
// switch and would use GPUDirect, where that switch sends their traffic through the CPU; a remark
// where only root could tell.
void note_acs(RailDecision* view, const std::filesystem::path& sysfs_root = "/sys");

}  // namespace gdr::topology

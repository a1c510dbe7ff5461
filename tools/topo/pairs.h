// Pairs of a GPU and a rail of its own, as the pictures show them.
#pragma once

#include <string>
#include <vector>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

struct RailPair {
  size_t gpu = 0;
  size_t rail = 0;      // position in RailPlan::rails
  std::string path;     // "PIX"
  bool direct = false;  // GPUDirect RDMA both ways
  std::string verdict;  // "GPUDirect", "GPUDirect receive only: ...", "no GPUDirect: ..."
};

std::vector<RailPair> rail_pairs(const RailDecision& view);  // by rail, then GPU

// Colours of a GPU's own rail, and of an HCA's first rail; grey for those without.
std::string gpu_colour(const RailPlan& plan, size_t gpu);
std::string hca_colour(const RailDecision& view, size_t hca);

// "rail 0", "rails 0, 1", "no rail".
std::string gpu_rails_text(const RailPlan& plan, size_t gpu);

}  // namespace gdr::topology

// What the user's choice of ports and rails costs: NCCL_IB_HCA and GDR_NCCL_RAIL_MAP.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugin/config/options.h"
#include "tools/inspection/inspection.h"

namespace gdr::tools::topo {

struct Restriction {
  std::vector<std::string> ports;  // what would be rails without the choice: "mlx5_2:1"
  std::vector<size_t> gpus;        // those that lose by it
};

// Returns the part of a rail that is the GPU's: a half where two GPUs use one rail, 2 for two rails
// of its own.
double share_of(const topology::RailPlan& plan, size_t gpu);

// Shares are sums of fractions: a difference up to this is none.
inline constexpr double kShareRounding = 1e-6;

// Compares the decision with the one without the user's choice. A GPU loses where its own rail is
// farther away, or its share of rails is smaller. GPUs are the same in both.
Restriction restriction_of(const topology::PredictedRails& chosen,
                           const topology::PredictedRails& free);

// Returns what the user's choice costs: "NCCL_IB_HCA=^mlx5_3 leaves out mlx5_3:1, so that rails are
// farther away, or shared by more GPUs". Inspection::unrestricted has a value.
std::string restriction_text(const Inspection& inspection);

// Fills Inspection::unrestricted and restricted_by; `all` is the machine with all of its ports.
void decide_unrestricted(const topology::Machine& all, const config::Options& settings,
                         Inspection* inspection);

}  // namespace gdr::tools::topo

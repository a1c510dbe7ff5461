// Settings that let NCCL use GPUDirect RDMA between GPUs and rails that are too far apart for it.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/predicted_rails.h"

namespace gdr::tools::topo {

struct ReachRemedy {
  enum class Setting { kNone, kC2c, kUnsetLevel, kLevel };
  Setting setting = Setting::kNone;
  std::string line;  // for a shell: "export NCCL_NET_GDR_LEVEL=PHB"; "" for kNone and kUnsetLevel
  // Whether it is worth a try. Across NUMA nodes GPUDirect RDMA is mostly slower than host memory.
  bool advised = false;
};

// Returns the first setting with which, by the prediction, all of the GPUs (indexes in
// Machine::gpus) have GPUDirect RDMA with their own rails: NCCL_NET_GDR_C2C, a level that is not
// set, or the level of the longest of their paths.
ReachRemedy reach_remedy(const topology::PredictedRails& decision, const std::vector<size_t>& gpus);

}  // namespace gdr::tools::topo

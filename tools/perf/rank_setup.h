// The set-up that every perf rank needs: its memory, the plugin, its device and its CPU.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/common/plugin_loader.h"
#include "tools/perf/options.h"
#include "tools/perf/rank_memory.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct RankSetup {
  Plugin plugin;
  int dev = 0;  // index of the plugin's device
  RankMemory memory;
  RegisteredBy registered_by = RegisteredBy::kHostAddress;
  int cpu = -1;                // to pin this rank to while it is measured; -1: do not pin
  nlohmann::json description;  // plugin, devices and ranks, for the report; on rank 0 only

  const abi::ncclNet_v8_t& net() const { return plugin.net(); }
};

// Opens the rank's memory, then loads and initialises the plugin. All ranks call this together.
// Unless the options ask for no output, rank 0 prints lines that begin with "#": the plugin, its
// devices, and the device and memory of each rank.
Result<RankSetup> set_up_rank(Rank& rank, const PerfOptions& options);

nlohmann::json describe_device(int index, const abi::ncclNetProperties_v8_t& props);

}  // namespace gdr::tools

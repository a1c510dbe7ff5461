// What every perf rank sets up first: its memory, the plugin, and the device it uses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/common/plugin_loader.h"
#include "tools/perf/options.h"
#include "tools/perf/rank_memory.h"
#include "tools/perf/registration.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct PerfEnvironment {
  Plugin plugin;
  int dev = 0;
  RankMemory memory;
  RegisteredBy registered_by = RegisteredBy::kHostAddress;
  int cpu = -1;  // to stay on while measured; -1: none
  // On rank 0 only: plugin, devices and ranks, for the report.
  nlohmann::json description;

  const abi::ncclNet_v8_t& net() const { return plugin.net(); }
};

// Opens the rank's memory, loads and initialises the plugin; all ranks call it together. Rank 0
// prints, unless nothing is to be, the plugin, its devices, and each rank's device and memory.
Result<PerfEnvironment> open_environment(Rank& rank, const PerfOptions& options);

nlohmann::json describe_device(int index, const abi::ncclNetProperties_v8_t& props);

// Writes to the file, or to standard output for "-".
Status write_json(const std::string& file, const nlohmann::json& value);

}  // namespace gdr::tools

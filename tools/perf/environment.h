// What every perf rank sets up first: the plugin, its devices and the one this rank uses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/common/plugin_loader.h"
#include "tools/perf/options.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct PerfEnvironment {
  Plugin plugin;
  int dev = 0;
  int cpu = -1;  // to stay on while measured; -1: none
  // On rank 0 only: plugin, devices and ranks, for the report.
  nlohmann::json description;

  const abi::ncclNet_v8_t& net() const { return plugin.net(); }
};

// Loads and initialises the plugin; all ranks call it together. Rank 0 prints, unless quiet, the
// plugin, its devices and which rank uses which.
Result<PerfEnvironment> open_environment(Rank& rank, const PerfOptions& options, bool quiet);

// "HOST|CUDA|DMABUF".
std::string ptr_support_text(int bits);

nlohmann::json describe_device(int index, const abi::ncclNetProperties_v8_t& props);

// Writes to the file, or to standard output for "-".
Status write_json(const std::string& file, const nlohmann::json& value);

}  // namespace gdr::tools

// The set-up that every perf rank needs: its memory, the plugin, its device and its CPU.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/net/deleters.h"
#include "tools/net/plugin_loader.h"
#include "tools/perf/options.h"
#include "tools/perf/rank_memory.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct RankSetup {
  Plugin plugin;
  NetContext context;  // of init; ends before the plugin
  int dev = 0;         // index of the plugin's device
  RankMemory memory;
  RegisteredBy registered_by = RegisteredBy::kHostAddress;
  nlohmann::json description;  // plugin, devices and ranks, for the report; on rank 0 only

  Net& net() const { return plugin.net(); }
};

// Opens the rank's memory, then loads and initialises the plugin. All ranks call this together.
// Unless the options ask for no output, rank 0 prints lines that begin with "#": the plugin, its
// devices, and the device and memory of each rank. `largest_message` is the most bytes that the run
// sends in one message; more than the table or the device can carry is an error.
Result<RankSetup> set_up_rank(Rank& rank, const PerfOptions& options, size_t largest_message);

// One rank's measurement. Rank 0 prints the table and writes the report.
class Measurement {
 public:
  Measurement(Rank& rank, const PerfOptions& options, RankSetup setup)
      : rank_(rank), options_(options), setup_(std::move(setup)) {}

 protected:
  // Prints a line of the table.
  void print(const std::string& line) const;
  // Returns the number of --iters, or by default default_iterations().
  size_t iterations(size_t bytes, size_t budget_bytes, size_t least, size_t most) const;
  // Writes what --json asks for: the description of the run, and `results`. Throws OutputError.
  void write_report(const nlohmann::json& results) const;

  Rank& rank_;
  const PerfOptions& options_;
  RankSetup setup_;
};

// Sets the rank up and runs the measurement, which returns how much was wrong. Returns the rank's
// exit code.
int run_measurement(Rank& rank, const PerfOptions& options, size_t largest_message,
                    const std::function<Result<uint64_t>(RankSetup)>& measure);

}  // namespace gdr::tools

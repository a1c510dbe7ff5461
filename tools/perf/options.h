// What the perf subcommands take from the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf/environment_setting.h"
#include "tools/perf/memory_place.h"

namespace gdr::tools {

// What rank 0 prints: everything, only the head (plugin, devices and ranks), or nothing.
enum class Printed { kAll, kHead, kNothing };

struct PerfOptions {
  std::string plugin = "gdr";
  std::vector<int> devices;  // rank r uses devices[r mod size]; empty: rank r mod their count
  size_t begin = 8;
  size_t end = 64u << 20;
  size_t factor = 2;
  size_t iterations = 0;  // 0: by size
  size_t warmup = 5;
  size_t depth = 8;  // requests in flight on one connection, as NCCL's NCCL_STEPS
  bool check = true;
  uint64_t seed = 1;
  double timeout_seconds = 120;
  std::string json;  // a file, "-" for standard output, empty for none
  Printed printed = Printed::kAll;
  std::optional<EnvironmentSetting> compare;       // all again with this in the ranks' environment
  size_t compare_rounds = 3;                       // of each side
  std::vector<MemoryPlace> memory{MemoryPlace{}};  // rank r: entry r mod size
  bool bind = true;                                // each rank to a CPU of its own while measured

  // Ranks: all on this machine, unless root names where rank 0 serves a run of several machines.
  int ranks = 2;
  std::string root;
  int rank = -1;

  // sendrecv
  bool osu = false;           // print OSU's columns
  std::string test = "both";  // bw, lat or both
  size_t slots = 1;           // message buffers taken in turn; 1: always the same, as perftest does

  // all_reduce
  std::string dtype = "float32";
  size_t channels = 2;
  std::vector<int> rails;     // channel c uses rails[c mod size]; empty: the rank's device for all
  size_t slice = 256u << 10;  // bytes of one message at most
};

}  // namespace gdr::tools

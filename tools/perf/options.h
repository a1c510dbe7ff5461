// The measurements of `nccl-gdr perf`, and their command-line options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/net/net.h"
#include "tools/perf/rank_memory.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

struct PerfOptions {
  std::string command = "perf sendrecv";
  std::string plugin = "gdr";
  std::optional<int> table;  // the version of the table; empty: the newest
  // Rank r uses devices[r mod size]; empty: device r mod their count.
  std::vector<MergedDevices> devices;
  size_t begin = 8;  // message sizes, in bytes
  size_t end = 64u << 20;
  size_t factor = 2;
  size_t iterations = 0;  // 0: depends on the size
  size_t warmup = 5;
  size_t depth = 8;   // requests in flight on one connection; NCCL's NCCL_STEPS
  bool check = true;  // verify the data
  uint64_t seed = 1;
  double timeout_seconds = 120;  // without progress
  std::string json;              // a file, "-" for standard output, empty for none
  bool quiet = false;            // print no tables, because standard output is for the JSON
  std::vector<MemorySpec> memory{MemorySpec{}};  // rank r uses entry r mod size

  // All ranks run on this machine, unless root names the address where rank 0 serves a run over
  // several machines.
  int ranks = 2;
  std::string root;
  int rank = -1;

  // sendrecv
  double seconds = 0;         // of each measurement, about; 0: `iterations`
  std::string test = "both";  // bw, lat or both
  size_t group = 1;           // messages of one receive

  // all_reduce
  size_t channels = 2;
  std::vector<int> rails;     // channel c uses rails[c mod size]; empty: the rank's device
  size_t slice = 256u << 10;  // largest message in bytes
  std::string until;          // a file that ends the repetition of all sizes; empty: each once
};

// The measurements. Each function is one rank's whole run and returns the rank's exit code
// (tools/common/output.h); all ranks of a run call the same one.
using Benchmark = int (*)(Rank&, const PerfOptions&);

// Measures bandwidth and latency between two ranks, as perftest does.
int run_sendrecv(Rank& rank, const PerfOptions& options);

// Runs a ring all-reduce over any number of ranks and checks every element.
int run_all_reduce(Rank& rank, const PerfOptions& options);

}  // namespace gdr::tools

// The measurements of `nccl-gdr perf`. Each function is one rank's whole run and returns the rank's
// exit code (tools/common/exit_codes.h); all ranks of a run call the same one.
#pragma once

#include "tools/perf/options.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

using Benchmark = int (*)(Rank&, const PerfOptions&);

// Measures bandwidth and latency between two ranks, as perftest does.
int run_sendrecv(Rank& rank, const PerfOptions& options);

// Runs a ring all-reduce over any number of ranks and checks every element.
int run_all_reduce(Rank& rank, const PerfOptions& options);

}  // namespace gdr::tools

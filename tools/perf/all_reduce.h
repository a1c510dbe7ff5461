// nccl-gdr perf all_reduce: a ring all-reduce over any number of ranks, every element checked.
#pragma once

#include "tools/perf/options.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// A rank's whole run; the exit code.
int run_all_reduce(Rank& rank, const PerfOptions& options);

}  // namespace gdr::tools

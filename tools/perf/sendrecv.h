// nccl-gdr perf sendrecv: bandwidth and latency between two ranks.
#pragma once

#include "tools/perf/options.h"
#include "tools/ranks/rank.h"

namespace gdr::tools {

// A rank's whole run; the exit code.
int run_sendrecv(Rank& rank, const PerfOptions& options);

}  // namespace gdr::tools

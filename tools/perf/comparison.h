// nccl-gdr perf --compare: the same measurement as it is, and with a variable in the environment.
#pragma once

#include "tools/perf/perf_ranks.h"

namespace gdr::tools {

// Whether these options can be compared; they have a setting in `compare`.
Status check_comparison(const PerfOptions& options);

// Runs the rounds, both sides in each, and prints their medians and ratios; the exit code. Ends at
// the first run without results.
int run_comparison(const GroupSpec& spec, PerfMain rank_main, const PerfOptions& options);

}  // namespace gdr::tools

// Runs the ranks of one measurement and tells what went wrong.
#pragma once

#include "tools/perf/options.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {

// What one rank does; its value is the rank's exit code.
using PerfMain = int (*)(Rank&, const PerfOptions&);

// The exit code; other than for wrong data, which the results show, standard error says why.
int run_ranks(const GroupSpec& spec, PerfMain rank_main, const PerfOptions& options);

}  // namespace gdr::tools

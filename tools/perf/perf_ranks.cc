#include "tools/perf/perf_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "tools/common/exit_codes.h"

namespace gdr::tools {
namespace {
// Prints what went wrong, the first cause first, and picks the exit code.
int conclude(const std::vector<RankOutcome>& outcomes) {
  int code = kExitOk;
  std::string last;
  for (const RankOutcome& outcome : causes(outcomes)) {
    bool silent = outcome.end == RankOutcome::End::kExited && outcome.report.empty() &&
                  outcome.exit_code == kExitFailed;  // wrong data, which the table shows
    bool repeats = !outcome.report.empty() && outcome.report == last;
    if (!silent && !repeats) fmt::print(stderr, "nccl-gdr: {}\n", describe(outcome));
    last = outcome.report;
    int its = outcome.end == RankOutcome::End::kExited ? outcome.exit_code : kExitFailed;
    code = std::max(code, its);
  }
  return code;
}
}  // namespace

int run_ranks(const GroupSpec& spec, PerfMain rank_main, const PerfOptions& options) {
  auto outcomes = run_group(spec, [&](Rank& rank) { return rank_main(rank, options); });
  if (!outcomes) {
    fmt::print(stderr, "nccl-gdr: {}\n", outcomes.error().text);
    return kExitCouldNotRun;
  }
  return conclude(*outcomes);
}

}  // namespace gdr::tools

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "tools/common/output.h"
#include "tools/conformance/case.h"

namespace gdr::tools {
namespace {
using Verdict = CaseResult::Verdict;
using End = RankOutcome::End;

bool killed_as_planned(const ConformanceCase& one, const RankOutcome& outcome) {
  return outcome.rank == one.killed_rank && outcome.end == End::kKilled &&
         outcome.signal == SIGKILL;
}

std::string text_of(const RankOutcome& outcome) {
  if (outcome.end == End::kKilled) {
    return fmt::format("crash: rank {} got signal {} ({}) while {}", outcome.rank, outcome.signal,
                       strsignal(outcome.signal), outcome.state);
  }
  if (outcome.end == End::kHung) {
    return fmt::format("hang: rank {} was {}", outcome.rank, outcome.state);
  }
  if (outcome.report.empty() && outcome.end == End::kExited) {
    // No failed requirement ended this process: the plugin, or a sanitizer in it, called exit.
    return fmt::format("crash: rank {} ended with exit code {} while {}", outcome.rank,
                       outcome.exit_code, outcome.state);
  }
  return outcome.report.empty() ? describe(outcome) : outcome.report;
}
}  // namespace

ConformanceCases all_cases() {
  ConformanceCases all;
  for (const ConformanceCases& part :
       {lifecycle_cases(), virtual_cases(), connection_cases(), data_cases(), request_cases(),
        completion_cases(), memory_cases(), failure_cases(), communicator_cases(), profiler_cases(),
        large_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::ranges::sort(all, {}, [](const ConformanceCase& one) { return std::string_view(one.id); });
  return all;
}

CaseResult judge(const ConformanceCase& one, const std::vector<RankOutcome>& outcomes) {
  std::vector<RankOutcome> bad = causes(outcomes);
  std::erase_if(bad, [&](const RankOutcome& outcome) { return killed_as_planned(one, outcome); });
  for (const RankOutcome& outcome : bad) {
    if (outcome.end == End::kExited && outcome.exit_code == kExitSkipped) {
      return {Verdict::kSkipped, outcome.report};
    }
  }
  if (bad.empty()) return {};
  return {Verdict::kFailed, text_of(bad.front())};
}

CaseResult run_case(const ConformanceCase& one, const ConformanceOptions& options,
                    const std::optional<GroupSpec>& machines) {
  GroupSpec spec = machines ? *machines : local_group(one.ranks);
  // A rank waits longer for another rank than that one waits for the plugin, so that the error
  // comes from the rank that can name the plugin's call.
  spec.patience_seconds = 2 * options.timeout_seconds;
  spec.outlive_deaths = one.killed_rank >= 0;
  spec.total_seconds = 5 * options.timeout_seconds;
  if (spec.outlive_deaths) spec.total_seconds += 2 * options.peer_death_seconds;
  Clock::time_point start = Clock::now();
  auto outcomes = run_group(spec, [&](Rank& rank) {
    Session session(rank, options);
    one.run(session);
    return kExitOk;
  });
  CaseResult result =
      outcomes ? judge(one, *outcomes) : CaseResult{Verdict::kFailed, outcomes.error().text};
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace gdr::tools

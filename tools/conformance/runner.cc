#include "tools/conformance/runner.h"

#include <signal.h>

#include <cstring>

#include "tools/common/exit_codes.h"

namespace gdr::tools {
namespace {
using Verdict = CaseResult::Verdict;
using End = RankOutcome::End;

bool died_as_planned(const CheckCase& check, const RankOutcome& outcome) {
  return outcome.rank == check.killed_rank && outcome.end == End::kKilled &&
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
    // No requirement of ours ended it: the plugin, or a sanitizer in it, called exit.
    return fmt::format("crash: rank {} ended with exit code {} while {}", outcome.rank,
                       outcome.exit_code, outcome.state);
  }
  return outcome.report.empty() ? describe(outcome) : outcome.report;
}
}  // namespace

CaseResult judge(const CheckCase& check, const std::vector<RankOutcome>& outcomes) {
  std::vector<RankOutcome> bad = causes(outcomes);
  std::erase_if(bad, [&](const RankOutcome& outcome) { return died_as_planned(check, outcome); });
  for (const RankOutcome& outcome : bad) {
    if (outcome.end == End::kExited && outcome.exit_code == kExitSkipped) {
      return {Verdict::kSkipped, outcome.report};
    }
  }
  if (bad.empty()) return {};
  return {Verdict::kFailed, text_of(bad.front())};
}

CaseResult run_case(const CheckCase& check, const CheckOptions& options, int ordinal) {
  Result<GroupSpec> group = group_of(check.ranks, options.root, options.rank);
  if (!group) return {Verdict::kFailed, group.error().text};
  GroupSpec& spec = *group;
  if (!options.root.empty()) spec.root.port = static_cast<uint16_t>(spec.root.port + ordinal);
  // A rank waits longer for another rank than that one for the plugin: it knows less.
  spec.patience_seconds = 2 * options.timeout_seconds;
  spec.outlive_deaths = check.killed_rank >= 0;
  spec.total_seconds = 5 * options.timeout_seconds;
  if (spec.outlive_deaths) spec.total_seconds += 2 * options.peer_death_seconds;
  Clock::time_point start = Clock::now();
  auto outcomes = run_group(spec, [&](Rank& rank) {
    Session session(rank, options);
    check.run(session);
    return kExitOk;
  });
  CaseResult result;
  if (outcomes) {
    result = judge(check, *outcomes);
  } else {
    result = {Verdict::kFailed, outcomes.error().text};
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace gdr::tools

// Runs conformance cases, each in processes of its own, and derives the result from how these
// ended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {

struct CaseResult {
  enum class Verdict { kOk, kFailed, kSkipped };
  Verdict verdict = Verdict::kOk;
  std::string text;  // what was observed, or why the case was skipped
  double seconds = 0;
};

// Runs one case: all ranks in this process, or, in a run over several machines, those of that spec.
CaseResult run_case(const ConformanceCase& one, const ConformanceOptions& options,
                    const std::optional<GroupSpec>& machines = {});

// Derives the result of a case. The first cause counts: a crash before a hang before a failed
// requirement. Exposed for the tests.
CaseResult judge(const ConformanceCase& one, const std::vector<RankOutcome>& outcomes);

}  // namespace gdr::tools

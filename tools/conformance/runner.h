// Runs conformance cases, each in processes of its own, and judges how they ended.
#pragma once

#include <string>
#include <vector>

#include "tools/conformance/case.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {

struct CaseResult {
  enum class Verdict { kOk, kFailed, kSkipped };
  Verdict verdict = Verdict::kOk;
  std::string text;  // what was seen, or why it was skipped
  double seconds = 0;
};

// ordinal: the case's number in this run; over two machines each case has a port of its own.
CaseResult run_case(const CheckCase& check, const CheckOptions& options, int ordinal);

// Exposed for the tests.
CaseResult judge(const CheckCase& check, const std::vector<RankOutcome>& outcomes);

}  // namespace gdr::tools

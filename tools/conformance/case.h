// The conformance cases. Each checks one clause of the contract between NCCL and a network plugin:
// NCCL's ext-net/README.md (later plugins/net/README.md), and the assumptions of NCCL's
// src/transport/net.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/conformance/session.h"
#include "tools/ranks/rank_group.h"

namespace gdr::tools {

struct ConformanceCase {
  const char* id;      // "C11-connect-never-blocks"; C1 is the group, scripts select by it
  const char* clause;  // of the contract, as a sentence
  int ranks;           // number of processes
  void (*run)(Session&);
  int killed_rank = -1;  // this rank kills itself with SIGKILL as part of the case
};

using ConformanceCases = std::vector<ConformanceCase>;

ConformanceCases lifecycle_cases();
ConformanceCases virtual_cases();
ConformanceCases connection_cases();
ConformanceCases data_cases();
ConformanceCases request_cases();
ConformanceCases completion_cases();
ConformanceCases memory_cases();
ConformanceCases failure_cases();
ConformanceCases communicator_cases();
ConformanceCases profiler_cases();
ConformanceCases large_cases();

// Returns all cases in order of their ids.
ConformanceCases all_cases();

// Each case runs in processes of its own; its result is derived from how these ended.
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

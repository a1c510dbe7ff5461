// The conformance cases. Each checks one clause of the contract between NCCL and a network plugin:
// NCCL's ext-net/README.md (later plugins/net/README.md), and the assumptions of NCCL's
// src/transport/net.cc.
#pragma once

#include <vector>

#include "tools/conformance/session.h"

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

}  // namespace gdr::tools

// The conformance cases: what each checks, and how it runs.
#pragma once

#include <vector>

#include "tools/conformance/session.h"

namespace gdr::tools {

struct CheckCase {
  const char* id;      // stable; "C05-connect-never-blocks"
  const char* clause;  // what the contract asks for
  int ranks;           // processes
  void (*run)(Session&);
  int killed_rank = -1;  // this rank kills itself with SIGKILL as part of the case
};

using CheckCases = std::vector<CheckCase>;

CheckCases lifecycle_cases();
CheckCases connection_cases();
CheckCases data_cases();
CheckCases request_cases();
CheckCases memory_cases();
CheckCases failure_cases();

// All of them, in order of their ids.
CheckCases all_cases();

}  // namespace gdr::tools

#include "tools/conformance/case.h"

#include <algorithm>
#include <string_view>

namespace gdr::tools {

ConformanceCases all_cases() {
  ConformanceCases all;
  for (const ConformanceCases& part :
       {lifecycle_cases(), table_cases(), reload_cases(), connection_cases(), data_cases(),
        request_cases(), completion_cases(), memory_cases(), failure_cases(), communicator_cases(),
        profiler_cases(), merged_cases(), large_cases(), beyond_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end(), [](const ConformanceCase& a, const ConformanceCase& b) {
    return std::string_view(a.id) < std::string_view(b.id);
  });
  return all;
}

}  // namespace gdr::tools

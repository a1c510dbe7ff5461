// Reports for the tests of their forms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/doctor/report/report.h"

namespace gdr::tools::doctor {

inline CheckResult result_of(const char* name, Cost cost, Observations observations) {
  return {{.name = name,
           .looks_at = "what this looks at",
           .why = "Something goes wrong otherwise.",
           .cost = cost,
           .run = nullptr},
          std::move(observations)};
}

inline Report report_of(std::vector<CheckResult> results) {
  Report report;
  report.host = "node17";
  report.results = std::move(results);
  return report;
}

// A report with every verdict, and texts that a format could mistake for its own.
inline Report full_report() {
  return report_of(
      {result_of("fine", Cost::kStops, {ok("GPU0", "it is \"fine\"")}),
       result_of("unseen", Cost::kHalves, {unknown("mlx5_0:1", "no \\ file", "run it as root")}),
       result_of("doubtful", Cost::kSlows, {warning("", "line\nbreak \xff", "set it to 1")}),
       result_of("cheap", Cost::kRisk, {failure("", "it may fail", "raise it")}),
       result_of("dear", Cost::kStops,
                 {ok("mlx5_0:1", "is well"),
                  failure("mlx5_1:1", "is down", "ip link set eth1 up", {"ip link set eth1 up"}),
                  unknown("mlx5_2:1", "cannot be read", "mount /sys")})});
}

}  // namespace gdr::tools::doctor

// The report as a file for node_exporter's textfile collector.
#include <fmt/format.h>

#include "tools/doctor/report.h"

namespace gdr::tools::doctor {

// One series for each check, so that an alert can name it. Labels are few, and stay the same while
// a machine does.
std::string to_prometheus(const Report& report) {
  std::string text =
      "# HELP nccl_gdr_doctor_check_status Verdict of a check of nccl-gdr doctor: 0 ok, 1 warning, "
      "2 failure, -1 unknown.\n"
      "# TYPE nccl_gdr_doctor_check_status gauge\n";
  for (const CheckResult& one : report.results) {
    int value = 0;
    switch (one.verdict()) {
      case Verdict::kOk:
        break;
      case Verdict::kUnknown:
        value = -1;
        break;
      case Verdict::kWarning:
        value = 1;
        break;
      case Verdict::kFailure:
        value = 2;
        break;
    }
    text += fmt::format("nccl_gdr_doctor_check_status{{check=\"{}\",cost=\"{}\"}} {}\n",
                        one.check.name, name_of(one.check.cost), value);
  }
  return text;
}

}  // namespace gdr::tools::doctor

// The report as a file for node_exporter's textfile collector.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/doctor/report/report.h"
#include "tools/inspection/labels.h"

namespace gdr::tools::doctor {
namespace {

// -1 for kUnknown, so that an alert for "> 0" has what is wrong alone.
int value_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNothing:
    case Verdict::kOk:
      return 0;
    case Verdict::kUnknown:
      return -1;
    case Verdict::kWarning:
      return 1;
    case Verdict::kFailure:
      return 2;
  }
  return -1;
}

std::string metric_head(const char* name, const char* help, const char* type = "gauge") {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

// Names of devices and counters are the kernel's. Once clean, what a label's value has to escape is
// what JSON escapes.
std::string label_value(const std::string& name) {
  return nlohmann::json(topo::clean_text(name)).dump();
}

std::string counters_metric(const CounterReading& reading) {
  constexpr char kName[] = "nccl_gdr_doctor_port_events_total";
  std::string text = metric_head(
      kName, "Errors of ports and of their PCIe links, and changes of their links.", "counter");
  for (const PortCounters& one : reading.ports) {
    for (const auto& [name, value] : one.values) {
      text += fmt::format("{}{{device={},port=\"{}\",counter={}}} {}\n", kName,
                          label_value(one.device), one.port, label_value(name), value);
    }
  }
  return text;
}

// One series for each kind of what is wrong.
std::string findings_metric(const Report& report) {
  std::map<std::pair<std::string, std::string>, int> counts;  // by check and kind
  for (const CheckResult& result : report.results) {
    for (const Observation& one : result.observations) {
      if (one.verdict < Verdict::kWarning) continue;
      ++counts[{result.check.name, result.kind_of(one)}];
    }
  }
  std::string text = metric_head("nccl_gdr_doctor_findings", "Number of warnings and failures.");
  for (const auto& [labels, count] : counts) {
    text += fmt::format("nccl_gdr_doctor_findings{{check=\"{}\",kind=\"{}\"}} {}\n", labels.first,
                        labels.second, count);
  }
  return text;
}

}  // namespace

// One series for each check, so that an alert can name it. Labels are few, and change
// with the verdict at most: no evidence. Those of checks are this program's, and need no escapes.
std::string to_prometheus(const Report& report) {
  std::string text =
      metric_head("nccl_gdr_doctor_check_status",
                  "Verdict of a check: 0 ok or nothing to look at, 1 warning, 2 failure, "
                  "-1 unknown.");
  for (const CheckResult& one : report.results) {
    text += fmt::format("nccl_gdr_doctor_check_status{{check=\"{}\",cost=\"{}\"}} {}\n",
                        one.check.name, name_of(one.cost()), value_of(one.verdict()));
  }
  text += findings_metric(report);
  text += metric_head("nccl_gdr_doctor_checks", "Number of checks by their verdict.");
  for (const Verdict verdict :
       {Verdict::kNothing, Verdict::kOk, Verdict::kUnknown, Verdict::kWarning, Verdict::kFailure}) {
    text += fmt::format("nccl_gdr_doctor_checks{{verdict=\"{}\"}} {}\n", name_of(verdict),
                        report.with(verdict).size());
  }
  text += metric_head("nccl_gdr_doctor_exit_status", "Exit status of the doctor: 0, 1 or 3.");
  text += fmt::format("nccl_gdr_doctor_exit_status {}\n", exit_code_of(report));
  text += counters_metric(report.counters);
  text += metric_head("nccl_gdr_doctor_info", "The doctor's release, and whether it ran as root.");
  return text + fmt::format("nccl_gdr_doctor_info{{version=\"{}\",root=\"{}\"}} 1\n", GDR_VERSION,
                            report.is_root);
}

}  // namespace gdr::tools::doctor

// The report for scripts.
#include <nlohmann/json.hpp>

#include "tools/doctor/report/report.h"

namespace gdr::tools::doctor {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const CheckResult& result, const Observation& one) {
  Json steps = Json::array();
  for (const std::string& command : one.steps) steps.push_back({{"command", command}});
  const bool is_wrong = one.verdict >= Verdict::kWarning;
  return {{"kind", is_wrong ? Json(result.kind_of(one)) : Json(nullptr)},
          {"verdict", name_of(one.verdict)},
          {"cost", name_of(one.cost.value_or(result.check.cost))},
          {"subject", one.subject},
          {"evidence", one.evidence},
          {"fix", one.fix},
          {"steps", steps},
          {"needs", one.needs}};
}

Json json_of(const CheckResult& result) {
  Json observations = Json::array();
  for (const Observation& one : result.observations) {
    observations.push_back(json_of(result, one));
  }
  return {{"name", result.check.name},      {"verdict", name_of(result.verdict())},
          {"cost", name_of(result.cost())}, {"looks_at", result.check.looks_at},
          {"why", result.check.why},        {"observations", observations}};
}

}  // namespace

std::string to_json(const Report& report) {
  Json checks = Json::array();
  for (const CheckResult& one : report.results) checks.push_back(json_of(one));
  const Json json = {{"format", "nccl-gdr-doctor"},
                     {"version", 2},
                     {"release", GDR_VERSION},
                     {"host", report.host},
                     {"root", report.is_root},
                     {"verdict", name_of(report.verdict())},
                     {"exit_status", exit_code_of(report)},
                     {"checks", checks},
                     {"counters", json_of(report.counters)}};
  // A file or a variable may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gdr::tools::doctor

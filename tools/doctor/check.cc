#include "tools/doctor/check.h"

#include <utility>

namespace gdr::tools::doctor {

Observation nothing(std::string evidence) {
  return {Verdict::kNothing, "", std::move(evidence), "", {}, ""};
}

Observation ok(std::string subject, std::string evidence) {
  return {Verdict::kOk, std::move(subject), std::move(evidence), "", {}, ""};
}

Observation unknown(std::string subject, std::string evidence, std::string needs) {
  return {Verdict::kUnknown, std::move(subject), std::move(evidence), "", {}, std::move(needs)};
}

Observation warning(std::string subject, std::string evidence, std::string fix,
                    std::vector<FixStep> steps) {
  return {Verdict::kWarning, std::move(subject), std::move(evidence),
          std::move(fix),    std::move(steps),   ""};
}

Observation failure(std::string subject, std::string evidence, std::string fix,
                    std::vector<FixStep> steps) {
  return {Verdict::kFailure, std::move(subject), std::move(evidence),
          std::move(fix),    std::move(steps),   ""};
}

Observation observation_of(const Finding& finding) {
  Observation seen = finding.severity == Severity::kError
                         ? failure(finding.subject, finding.text, finding.fix)
                         : warning(finding.subject, finding.text, finding.fix);
  seen.kind = finding.kind;
  return seen;
}

Observation at_cost(Cost cost, Observation observation) {
  observation.cost = cost;
  return observation;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNothing:
      return "nothing";
    case Verdict::kOk:
      return "ok";
    case Verdict::kUnknown:
      return "unknown";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kFailure:
      return "failure";
  }
  return "";
}

const char* name_of(Cost cost) {
  switch (cost) {
    case Cost::kRisk:
      return "risk";
    case Cost::kSlows:
      return "slows";
    case Cost::kHalves:
      return "halves";
    case Cost::kStops:
      return "stops";
  }
  return "";
}

}  // namespace gdr::tools::doctor

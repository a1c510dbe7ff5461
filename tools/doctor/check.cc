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
                    std::vector<std::string> steps) {
  return {Verdict::kWarning, std::move(subject), std::move(evidence),
          std::move(fix),    std::move(steps),   ""};
}

Observation failure(std::string subject, std::string evidence, std::string fix,
                    std::vector<std::string> steps) {
  return {Verdict::kFailure, std::move(subject), std::move(evidence),
          std::move(fix),    std::move(steps),   ""};
}

Observation observation_of(const Finding& finding) {
  Observation seen = finding.severity == Severity::kError
                         ? failure(finding.subject, finding.text, finding.fix)
                         : warning(finding.subject, finding.text, finding.fix);
  seen.kind = finding.kind;
  // A part of a rail, or a distant one, stops no job.
  if (finding.kind == FindingKind::kRailShare || finding.kind == FindingKind::kNcclChoice) {
    seen.cost = Cost::kHalves;
  }
  // A text that NCCL reads in another way than it looks may cost nothing; a file that it refuses
  // ends every job. The cost is the same whichever check looked at the file.
  if (finding.kind == FindingKind::kTopologyFile) seen.cost = Cost::kRisk;
  if (finding.kind == FindingKind::kNcclFails) seen.cost = Cost::kStops;
  return seen;
}

Observation at_cost(Cost cost, Observation observation) {
  observation.cost = cost;
  return observation;
}

const char* name_of(Verdict verdict) {
  constexpr const char* kNames[] = {"nothing", "ok", "unknown", "warning", "failure"};
  return kNames[static_cast<size_t>(verdict)];
}

const char* name_of(Cost cost) {
  constexpr const char* kNames[] = {"risk", "slows", "halves", "stops"};
  return kNames[static_cast<size_t>(cost)];
}

}  // namespace gdr::tools::doctor

#include "tools/doctor/report.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "tools/common/exit_codes.h"
#include "tools/doctor/host.h"
#include "tools/topo/labels.h"

namespace gdr::tools::doctor {
namespace {

// A check that fails by itself, as by an exception for a file that it did not expect, hides nothing
// of the others.
Observations observations_by(const Check& check, const Host& host) {
  constexpr char kAsk[] = "report this as an error of nccl-gdr, with the output of --check";
  try {
    Observations seen = check.run(host);
    if (!seen.empty()) return seen;
    return {unknown("", "the check ended without a result", kAsk)};
  } catch (const std::exception& error) {
    return {unknown("", std::string("the check ended with an error: ") + error.what(), kAsk)};
  } catch (...) {
    return {unknown("", "the check ended with an error", kAsk)};
  }
}

}  // namespace

Verdict CheckResult::verdict() const {
  Verdict worst = Verdict::kNothing;
  for (const Observation& one : observations) worst = std::max(worst, one.verdict);
  return worst;
}

Cost CheckResult::cost() const {
  std::optional<Cost> highest;
  for (const Observation& one : observations) {
    if (one.verdict != verdict()) continue;
    const Cost cost = one.cost.value_or(check.cost);
    highest = std::max(highest.value_or(cost), cost);
  }
  return highest.value_or(check.cost);
}

std::string CheckResult::kind_of(const Observation& one) const {
  const std::optional<FindingKind> kind = one.kind.has_value() ? one.kind : check.kind;
  return kind.has_value() ? id_of(*kind) : check.name;
}

Verdict Report::verdict() const {
  Verdict worst = Verdict::kNothing;
  for (const CheckResult& one : results) worst = std::max(worst, one.verdict());
  return worst;
}

bool Report::saw_nothing() const {
  if (verdict() != Verdict::kUnknown) return false;
  return std::all_of(results.begin(), results.end(), [](const CheckResult& result) {
    return std::all_of(
        result.observations.begin(), result.observations.end(), [](const Observation& one) {
          return one.verdict == Verdict::kUnknown || one.verdict == Verdict::kNothing;
        });
  });
}

std::vector<const CheckResult*> Report::with(Verdict verdict) const {
  std::vector<const CheckResult*> found;
  for (const CheckResult& one : results) {
    if (one.verdict() == verdict) found.push_back(&one);
  }
  std::stable_sort(found.begin(), found.end(), [](const CheckResult* a, const CheckResult* b) {
    return a->cost() > b->cost();
  });
  return found;
}

Report run_checks(const std::vector<Check>& checks, const Host& host) {
  Report report;
  report.host = topo::clean_text(host.line("/proc/sys/kernel/hostname"));
  report.is_root = geteuid() == 0;
  for (const Check& check : checks) report.results.push_back({check, observations_by(check, host)});
  return report;
}

int exit_code_of(const Report& report) {
  if (report.saw_nothing()) return kExitCouldNotRun;
  return report.verdict() == Verdict::kFailure ? kExitFailed : kExitOk;
}

}  // namespace gdr::tools::doctor

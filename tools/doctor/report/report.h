// The doctor's report: the results of the checks, and the forms in which it is printed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/doctor/check.h"
#include "tools/doctor/facts/counters.h"

namespace gdr::tools::doctor {

struct CheckResult {
  Check check;
  Observations observations;

  Verdict verdict() const;  // the worst of the observations
  Cost cost() const;        // the highest of those with that verdict
  // What the observation is about, a warning or a failure: the id of its kind, or the check's name.
  std::string kind_of(const Observation& one) const;
};

struct Report {
  std::string host;                  // its name
  bool is_root = false;              // whether the doctor ran as root
  std::vector<CheckResult> results;  // in the order of all_checks()
  CounterReading counters;

  // The worst; kNothing without results.
  Verdict verdict() const;
  // Whether something could not be looked at, and nothing was seen of what the machine has.
  bool saw_nothing() const;
  // The results with that verdict, those of the highest cost first.
  std::vector<const CheckResult*> with(Verdict verdict) const;
};

// Runs a check. One that fails by itself, as by an exception for a file that it did not expect, is
// kUnknown, and hides nothing of the others.
Observations run_check(const Check& check, const Host& host);

// Runs the checks, in their order.
Report run_checks(const std::vector<Check>& checks, const Host& host);

// What a person reads: failures, then warnings, those that cost most first, each with evidence, fix
// and reason; then what was not looked at, by what would show it, what is fine, and the numbers.
// With `all`, every check and every observation.
std::string to_text(const Report& report, bool all);
// docs/doctor.md describes it.
std::string to_json(const Report& report);
// For node_exporter's textfile collector.
std::string to_prometheus(const Report& report);

// The exit code of the process for the report: tools/common/output.h.
int exit_code_of(const Report& report);

}  // namespace gdr::tools::doctor

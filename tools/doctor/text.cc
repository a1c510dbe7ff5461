// The report for people.
#include <fmt/format.h>

#include <map>

#include "tools/doctor/report.h"

namespace gdr::tools::doctor {
namespace {

std::string subject_of(const Observation& one) {
  return one.subject.empty() ? "" : one.subject + ": ";
}

// What is worse than fine; with `all`, everything.
std::string observations_of(const CheckResult& result, bool all) {
  std::string text;
  for (const Observation& one : result.observations) {
    if (one.verdict == Verdict::kOk && !all) continue;
    const bool is_same = one.verdict == result.verdict();
    text += fmt::format("    {}{}{}\n", is_same ? "" : fmt::format("({}) ", name_of(one.verdict)),
                        subject_of(one), one.evidence);
    if (!one.fix.empty()) text += fmt::format("      Fix: {}\n", one.fix);
    if (!one.needs.empty()) text += fmt::format("      To see it: {}\n", one.needs);
  }
  return text;
}

std::string entry(const CheckResult& result, bool all) {
  const Verdict verdict = result.verdict();
  std::string text = fmt::format("{:<8}{}", name_of(verdict), result.check.name);
  if (verdict == Verdict::kFailure) text += fmt::format(" ({})", name_of(result.check.cost));
  text += "\n" + observations_of(result, all);
  if (verdict == Verdict::kFailure || verdict == Verdict::kWarning) {
    text += fmt::format("      Why: {}\n", result.check.why);
  }
  return text;
}

std::string names_of(const std::vector<const CheckResult*>& results) {
  std::string names;
  for (const CheckResult* one : results) {
    names += (names.empty() ? "" : ", ") + std::string(one->check.name);
  }
  return names;
}

// Groups the checks that are unknown by what would show them. A check that saw something, and not
// all of it, is named as well.
std::string unknown_lines(const Report& report) {
  std::map<std::string, std::vector<const CheckResult*>> by_need;
  for (const CheckResult& result : report.results) {
    for (const Observation& one : result.observations) {
      if (one.verdict != Verdict::kUnknown) continue;
      std::vector<const CheckResult*>& list = by_need[one.needs];
      if (list.empty() || list.back() != &result) list.push_back(&result);
    }
  }
  std::string text;
  for (const auto& [need, results] : by_need) {
    text += fmt::format("unknown {}{}\n", names_of(results),
                        need.empty() ? "" : fmt::format("; to see it: {}", need));
  }
  return text;
}

}  // namespace

std::string to_text(const Report& report, bool all) {
  const auto failures = report.with(Verdict::kFailure), warnings = report.with(Verdict::kWarning);
  std::string text;
  for (const CheckResult* one : failures) text += entry(*one, all);
  for (const CheckResult* one : warnings) text += entry(*one, all);
  if (all) {
    for (const CheckResult* one : report.with(Verdict::kUnknown)) text += entry(*one, all);
    for (const CheckResult* one : report.with(Verdict::kOk)) text += entry(*one, all);
  }
  if (!text.empty()) text += "\n";
  const auto fine = report.with(Verdict::kOk);
  if (!fine.empty() && !all) text += fmt::format("ok      {}\n", names_of(fine));
  if (!all) text += unknown_lines(report);
  text += fmt::format("{}: {} checks: {} failed, {} with warnings, {} ok, {} unknown\n",
                      report.host.empty() ? "this machine" : report.host, report.results.size(),
                      failures.size(), warnings.size(), fine.size(),
                      report.with(Verdict::kUnknown).size());
  return text;
}

}  // namespace gdr::tools::doctor

// The report for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tools/doctor/report/report.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::doctor {
namespace {

using topo::unbroken;
using topo::wrapped;

constexpr size_t kMostShown = 4;  // observations of a check, where not all are asked for
constexpr char kIndent[] = "         ";

using CheckResults = std::vector<const CheckResult*>;

// Observations that differ in nothing but the subject.
struct Group {
  const Observation* first;
  std::vector<std::string> subjects;
};

bool are_alike(const Observation& a, const Observation& b) {
  return a.verdict == b.verdict && a.evidence == b.evidence && a.fix == b.fix && a.needs == b.needs;
}

// Returns them with the worst first.
std::vector<Group> groups_of(const CheckResult& result, bool all) {
  std::vector<Group> groups;
  for (const Observation& one : result.observations) {
    if (one.verdict <= Verdict::kOk && !all) continue;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& other) { return are_alike(*other.first, one); });
    if (group == groups.end()) group = groups.insert(group, {&one, {}});
    if (!one.subject.empty()) group->subjects.push_back(one.subject);
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.first->verdict > b.first->verdict;
  });
  return groups;
}

std::string subjects_of(const Group& group, bool all) {
  if (group.subjects.empty()) return "";
  if (!all) return topo::short_list(group.subjects) + ": ";
  return fmt::format("{}: ", fmt::join(group.subjects, ", "));
}

// The fix follows the last of several groups in a row that share it.
bool shares_fix(const Group& group, const Group* next) {
  return next != nullptr && group.first->fix == next->first->fix &&
         group.first->needs == next->first->needs;
}

std::string group_text(const Group& group, const Group* next, Verdict of_check, bool all) {
  const Observation& one = *group.first;
  const std::string verdict =
      one.verdict == of_check ? "" : fmt::format("({}) ", name_of(one.verdict));
  std::string text = wrapped(kIndent, std::string(kIndent) + "  ",
                             verdict + subjects_of(group, all) + one.evidence);
  if (shares_fix(group, next)) return text;
  const std::string below = std::string(kIndent) + "  ";
  if (!one.fix.empty()) text += unbroken(below + "Fix: ", one.fix);
  if (!one.needs.empty()) text += unbroken(below + "To see it: ", one.needs);
  return text;
}

// What a failure of that cost does, and a warning may do.
std::string cost_text(Verdict verdict, Cost cost) {
  const bool fails = verdict == Verdict::kFailure;
  switch (cost) {
    case Cost::kRisk:
      return "a risk";
    case Cost::kSlows:
      return fails ? "costs bandwidth" : "may cost bandwidth";
    case Cost::kHalves:
      return fails ? "halves the bandwidth, or worse" : "may halve the bandwidth";
    case Cost::kStops:
      return fails ? "stops jobs, or their use of RDMA" : "may stop jobs, or their use of RDMA";
  }
  return "";
}

std::string entry(const CheckResult& result, bool all) {
  const Verdict verdict = result.verdict();
  const bool is_wrong = verdict == Verdict::kFailure || verdict == Verdict::kWarning;
  std::string text = fmt::format("{:<9}{}", name_of(verdict), result.check.name);
  if (is_wrong) text += ": " + cost_text(verdict, result.cost());
  text += "\n";
  const std::vector<Group> groups = groups_of(result, all);
  const size_t shown = all || groups.size() <= kMostShown ? groups.size() : kMostShown - 1;
  for (size_t i = 0; i < shown; ++i) {
    text += group_text(groups[i], i + 1 < shown ? &groups[i + 1] : nullptr, verdict, all);
  }
  if (shown < groups.size()) {
    text += fmt::format("{}and {} more: nccl-gdr doctor --check {}\n", kIndent,
                        groups.size() - shown, result.check.name);
  }
  if (is_wrong) text += wrapped(std::string(kIndent) + "Why: ", result.check.why);
  return text + "\n";
}

std::string names_of(const CheckResults& results) {
  std::string names;
  for (const CheckResult* one : results) {
    names += (names.empty() ? "" : ", ") + std::string(one->check.name);
  }
  return names;
}

// In the order of the checks, since none of them costs anything.
std::string names_line(const std::string& head, const Report& report, Verdict verdict) {
  CheckResults results;
  for (const CheckResult& one : report.results) {
    if (one.verdict() == verdict) results.push_back(&one);
  }
  return results.empty() ? "" : wrapped(head, names_of(results));
}

// The checks that did not see all that they look at, by what would show it.
std::map<std::string, CheckResults> by_need(const Report& report) {
  std::map<std::string, CheckResults> needs;
  for (const CheckResult& result : report.results) {
    for (const Observation& one : result.observations) {
      if (one.verdict != Verdict::kUnknown) continue;
      CheckResults& list = needs[one.needs];
      if (list.empty() || list.back() != &result) list.push_back(&result);
    }
  }
  return needs;
}

// One line for what root would show, and one for what else was not looked at.
std::string unknown_lines(const Report& report) {
  std::string lines, others;
  for (const auto& [need, results] : by_need(report)) {
    const std::string names = names_of(results);
    if (need == kNeedsRoot) {
      lines += wrapped("unknown  ", fmt::format("{}: {}{}", names, need,
                                                report.is_root ? " of the host, as root here lacks "
                                                                 "a capability"
                                                               : ""));
      continue;
    }
    others += (others.empty() ? "" : "; ") + names + (need.empty() ? "" : " (" + need + ")");
  }
  if (!others.empty()) lines += wrapped("unknown  ", others);
  return lines;
}

std::string last_lines(const Report& report, bool all) {
  const auto count = [&](Verdict verdict) { return report.with(verdict).size(); };
  const std::string failed = count(Verdict::kFailure) == 0
                                 ? "none failed"
                                 : fmt::format("{} failed", count(Verdict::kFailure));
  std::string text =
      fmt::format("{}: of {} check{}, {}, {} with warnings, {} ok, {} unknown, {} not applicable\n",
                  report.host.empty() ? "this machine" : report.host, report.results.size(),
                  report.results.size() == 1 ? "" : "s", failed, count(Verdict::kWarning),
                  count(Verdict::kOk), count(Verdict::kUnknown), count(Verdict::kNothing));
  if (!all) text += "nccl-gdr doctor --all shows what each of them saw.\n";
  return text;
}

}  // namespace

std::string to_text(const Report& report, bool all) {
  std::vector<Verdict> shown = {Verdict::kFailure, Verdict::kWarning};
  if (all) shown.insert(shown.end(), {Verdict::kUnknown, Verdict::kOk, Verdict::kNothing});
  std::string text;
  for (const Verdict verdict : shown) {
    for (const CheckResult* one : report.with(verdict)) text += entry(*one, all);
  }
  if (!all) {
    text += unknown_lines(report);
    text += names_line("ok       ", report, Verdict::kOk);
    text += names_line("nothing  ", report, Verdict::kNothing);
  }
  return text + last_lines(report, all);
}

}  // namespace gdr::tools::doctor

#include "tools/doctor/report/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "tools/common/output.h"
#include "tools/doctor/topology.h"

namespace gdr::tools::doctor {
namespace {

Observation not_in_file(const std::string& what) {
  return unknown("", "the file does not show " + what, "run it on the machine, or give --root");
}

// Of a file in which nothing is wrong.
Observation of_silent_file(const InFile& shown, const Machine& machine) {
  if (machine.unclassified > 0 && (shown.needs_gpu || shown.needs_hca)) {
    return not_in_file(
        fmt::format("which devices there are, and where: {} <pci> have no class, or a busid "
                    "that NCCL does not find, and NCCL takes what /sys of the machine has",
                    machine.unclassified));
  }
  if (shown.needs_gpu && machine.gpus.empty()) return nothing("the file shows no GPU");
  if (shown.needs_hca && machine.hcas.empty()) return nothing("the file shows no HCA");
  const bool is_shown = shown.is_shown == nullptr || shown.is_shown(machine);
  return is_shown ? ok("", "nothing is wrong, as far as the file shows") : not_in_file(shown.what);
}

// A file shows the topology alone.
Observations observations_in_file(const Check& check, const Host& host) {
  if (!check.in_file.has_value()) return {not_in_file("it")};
  Observations seen = findings_of(host, check.kinds);
  if (check.in_file->judge_file != nullptr) check.in_file->judge_file(host, &seen);
  for (const Finding& note : host.inspection->decision.findings) {
    const bool is_own = std::count(check.kinds.begin(), check.kinds.end(), note.kind) > 0;
    if (note.severity == Severity::kInfo && is_own) seen.push_back(ok(note.subject, note.text));
  }
  if (seen.empty()) seen.push_back(of_silent_file(*check.in_file, machine_of(host)));
  return seen;
}

// GPUs that only a file shows are not looked at, but what settings do is.
Observations of_absent_gpus(const Check& check, const Host& host) {
  Observations seen = findings_of(host, check.kinds);
  std::erase_if(seen, [](const auto& one) { return one.kind != FindingKind::kRestriction; });
  seen.push_back(unknown("", "the GPUs are those of NCCL's topology file, and not of this machine",
                         "run it on the machine that the file is of, or unset NCCL_TOPO_FILE"));
  return seen;
}

}  // namespace

Observations run_check(const Check& check, const Host& host) {
  if (!host.file.empty()) return observations_in_file(check, host);
  if (check.needs_topology && !host.inspection.has_value()) return {unknown_topology(host)};
  if (check.is_about_gpus && has_absent_gpus(host)) return of_absent_gpus(check, host);
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
  if (one.kind.has_value()) return id_of(*one.kind);
  return check.kinds.empty() ? check.name : id_of(check.kinds.front());
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
  report.host =
      topo::clean_text(host.file.empty() ? host.line("/proc/sys/kernel/hostname") : host.file);
  report.is_root = geteuid() == 0;
  report.counters = host.counters;
  for (const Check& check : checks) report.results.push_back({check, run_check(check, host)});
  return report;
}

namespace {

// Whether no GPU and no HCA was found: a laptop, or a node that has lost all of them.
bool saw_no_device(const Report& report) {
  return 2 == std::ranges::count_if(report.results, [](const CheckResult& one) {
           const std::string_view name = one.check.name;
           return one.verdict() == Verdict::kUnknown &&
                  (name == "rdma-devices" || name == "nvidia-driver");
         });
}

}  // namespace

int exit_code_of(const Report& report) {
  if (report.verdict() == Verdict::kFailure) return kExitFailed;
  return report.saw_nothing() || saw_no_device(report) ? kExitCouldNotRun : kExitOk;
}

}  // namespace gdr::tools::doctor

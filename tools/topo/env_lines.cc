#include "tools/topo/env_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/topo/check.h"
#include "tools/topo/env_parts.h"
#include "tools/topo/nccl_choice.h"
#include "tools/topo/restriction.h"
#include "tools/topo/shell_lines.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::topo {
namespace {

bool is_restricting(const Inspection& inspection, const char* name) {
  const auto& names = inspection.restricting;
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Takes back what is set and cannot be used.
std::string unusable_lines(const Inspection& inspection) {
  std::string lines;
  for (const auto& [name, setting] : inspection.unusable) {
    lines += comment(setting_text(inspection.unusable, name) +
                     " cannot be used: the warning says why. The default counts.") +
             take_back(&setting, name);
  }
  return lines;
}

// Takes back what keeps GPUs off their ports.
std::string unset_lines(const Inspection& inspection) {
  const Restriction lost = restriction_of(inspection.decision, *inspection.unrestricted);
  std::string lines =
      comment(inspection.restricted_by + ": this gives " + short_list(gpu_labels(lost.gpus)) +
              " rails that are farther away, or shared by more GPUs, than those of the machine.");
  if (!lost.ports.empty()) lines += comment("Left out: " + short_list(lost.ports) + ".");
  for (const std::string& name : inspection.restricting) {
    lines += take_back(find_setting(inspection.settings, name), name);
  }
  return lines + comment("What follows is for the machine without it.");
}

// Says what is left to do after `lines`, which make the machine what `advised` is; "" where they
// say all.
std::string closing_line(const Inspection& advised, const std::string& lines) {
  const size_t faults = check_machine(advised).faults.size();
  if (faults > 0) {
    return comment(
        fmt::format("`nccl-gdr topo --check` finds {} fault{} that no advised setting "
                    "fixes: run it.",
                    faults, faults == 1 ? "" : "s"));
  }
  if (!lines.empty()) return "";
  const topology::nccl::Settings& settings = advised.decision.prediction.settings();
  const std::string nccl = "NCCL " + settings.release.to_string();
  const std::string in_force = release_text(settings);
  if (in_force != nccl) {
    return comment("Nothing has to be changed: " + in_force + " is right for this machine.");
  }
  return comment("Nothing has to be set: the defaults of " + nccl + " are right for this machine.");
}

// Whether the finding is about a setting that is taken back: its value, an entry of a list, or a
// map that does not fit.
bool is_about_taken_back(const Inspection& inspection, const Finding& finding) {
  const UserSettings& unusable = inspection.unusable;
  const auto& names = inspection.restricting;
  return std::any_of(
             unusable.begin(), unusable.end(),
             [&](const auto& setting) {
               return finding.subject == setting.first ||
                      (finding.subject.empty() && finding.text.starts_with(setting.first + " "));
             }) ||
         std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return finding.subject == setting_text(inspection.settings, name);
         });
}

// Returns the machine without the settings that are taken back before the others are judged.
Inspection without_bad_settings(const Inspection& inspection) {
  Inspection advised = inspection;
  Findings findings = inspection.decision.findings;
  if (inspection.unrestricted.has_value()) advised.decision = *inspection.unrestricted;
  std::erase_if(findings,
                [&](const Finding& finding) { return is_about_taken_back(inspection, finding); });
  advised.decision.findings = std::move(findings);
  advised.unrestricted.reset();
  for (const std::string& name : inspection.restricting) advised.settings.erase(name);
  return advised;
}

}  // namespace

Result<std::string> env_lines(const Inspection& inspection) {
  Inspection advised = without_bad_settings(inspection);
  RailDecision& decision = advised.decision;
  if (Status usable = check_names(decision.machine); !usable) return forward_error(usable);
  std::string lines = unusable_lines(inspection);
  if (decision.plan.rails.empty()) {
    lines += comment("The machine has no rail, so that no setting helps.");
    return lines + closing_line(advised, lines);
  }
  if (inspection.unrestricted.has_value()) lines += unset_lines(inspection);
  const UserSetting* map = find_setting(advised.settings, kRailMapVariable);
  if (rdma_rails(decision).empty()) {
    if (map != nullptr) lines += map_lines(inspection, *map);
    lines += comment("No rail is an RDMA device, so that no setting helps.");
    return lines + closing_line(advised, lines);
  }
  const bool has_list =
      !inspection.not_offered.empty() || is_option(find_setting(inspection.settings, kHcaVariable));
  lines += hca_lines(decision, !is_restricting(inspection, kHcaVariable) && has_list);
  lines += level_lines(inspection, &decision);
  if (map != nullptr) lines += map_lines(inspection, *map);
  lines += remedy_lines(map != nullptr, &decision);
  return lines + closing_line(advised, lines);
}

}  // namespace gdr::tools::topo

#include "tools/inspection/restriction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/config/topology_options.h"
#include "tools/inspection/labels.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::topo {
namespace {

bool loses(const RailDecision& chosen, const RailDecision& free, size_t gpu) {
  if (free.plan.gpus[gpu].rails.empty()) return false;
  if (chosen.plan.gpus[gpu].rails.empty()) return true;
  return chosen.plan.gpus[gpu].path > free.plan.gpus[gpu].path ||
         share_of(chosen.plan, gpu) < share_of(free.plan, gpu) - kShareRounding;
}

}  // namespace

double share_of(const RailPlan& plan, size_t gpu) {
  double share = 0;
  for (int rail : plan.gpus[gpu].rails) {
    share += 1.0 / static_cast<double>(gpus_of_rail(plan, static_cast<size_t>(rail)).size());
  }
  return share;
}

Restriction restriction_of(const RailDecision& chosen, const RailDecision& free) {
  Restriction restriction;
  for (size_t gpu = 0; gpu < free.machine.gpus.size(); ++gpu) {
    if (loses(chosen, free, gpu)) restriction.gpus.push_back(gpu);
  }
  for (const Rail& rail : free.plan.rails) {
    const std::string label = port_label(free.machine, rail.port);
    const bool is_rail = std::any_of(
        chosen.plan.rails.begin(), chosen.plan.rails.end(),
        [&](const Rail& other) { return port_label(chosen.machine, other.port) == label; });
    if (!is_rail) restriction.ports.push_back(label);
  }
  return restriction;
}

std::string restriction_text(const Inspection& inspection) {
  const Restriction lost = restriction_of(inspection.decision, *inspection.unrestricted);
  if (inspection.decision.plan.rails.empty()) {
    return inspection.restricted_by + " leaves no rail at all";
  }
  if (lost.ports.empty()) {
    return inspection.restricted_by + " gives rails that are farther away, or shared by more GPUs";
  }
  return inspection.restricted_by + " leaves out " + short_list(lost.ports) +
         ", so that rails are farther away, or shared by more GPUs";
}

void decide_unrestricted(const Machine& all, const config::Options& settings,
                         Inspection* inspection) {
  const bool by_list = has_excluded(inspection->not_offered);
  const bool by_map = inspection->settings.contains(kRailMapVariable);
  if (!by_list && !by_map) return;
  topology::DecisionOptions options;
  // A list that excludes nothing may still name ports that are excluded without it.
  if (!by_list) options.rails.named = config::decision_options(settings, all).rails.named;
  topology::PredictedRails free = topology::predict(topology::decide(all, std::move(options), {}),
                                                    inspection->decision.prediction.settings());
  if (restriction_of(inspection->decision, free).gpus.empty()) return;
  inspection->unrestricted = std::move(free);
  std::vector<std::string> texts;
  if (by_list) texts.push_back(setting_text(inspection->settings, kHcaVariable));
  if (by_map) texts.push_back(setting_text(inspection->settings, kRailMapVariable));
  inspection->restricted_by = fmt::format("{}", fmt::join(texts, " and "));
}

}  // namespace gdr::tools::topo

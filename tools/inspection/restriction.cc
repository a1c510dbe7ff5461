#include "tools/inspection/restriction.h"

#include <algorithm>
#include <utility>

#include "plugin/config/topology_options.h"
#include "tools/inspection/hca_list.h"
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

bool loses_by(const RailDecision& chosen, const RailDecision& free) {
  return !restriction_of(chosen, free).gpus.empty();
}

// The two settings by which a user chooses ports and rails.
struct Choices {
  bool list = false;  // NCCL_IB_HCA
  bool map = false;
};

// Returns the decision without these settings of the user; `all` is the machine with all of its
// ports.
RailDecision decide_without(const Choices& dropped, const Machine& all,
                            const config::Options& settings, const Inspection& inspection) {
  topology::DecisionOptions options;
  const Machine& machine = dropped.list ? all : inspection.decision.machine;
  if (!dropped.list) {
    options.rails.named = config::decision_options(settings, machine).rails.named;
  }
  if (!dropped.map && inspection.settings.contains(kRailMapVariable)) {
    options.rails.map = settings.rail_map;
  }
  return topology::predict(topology::decide(machine, std::move(options), {}),
                           inspection.decision.prediction.settings());
}

// Returns which of the two makes GPUs lose; both where neither does alone. `free` is the decision
// without either.
Choices restricting_of(const Choices& in_force, const RailDecision& free, const Machine& all,
                       const config::Options& settings, const Inspection& inspection) {
  if (!in_force.list || !in_force.map) return in_force;
  const Choices list{true, false}, map{false, true};
  const Choices found{loses_by(decide_without(map, all, settings, inspection), free),
                      loses_by(decide_without(list, all, settings, inspection), free)};
  const bool one_only = found.list != found.map;
  return one_only && loses_by(inspection.decision, decide_without(found, all, settings, inspection))
             ? found
             : in_force;
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
  const Choices in_force{has_excluded(inspection->not_offered),
                         inspection->settings.contains(kRailMapVariable)};
  if (!in_force.list && !in_force.map) return;
  const RailDecision free = decide_without(in_force, all, settings, *inspection);
  if (!loses_by(inspection->decision, free)) return;
  const Choices found = restricting_of(in_force, free, all, settings, *inspection);
  inspection->unrestricted = decide_without(found, all, settings, *inspection);
  if (found.list) inspection->restricting.push_back(kHcaVariable);
  if (found.map) inspection->restricting.push_back(kRailMapVariable);
  for (const std::string& name : inspection->restricting) {
    std::string& text = inspection->restricted_by;
    text += (text.empty() ? "" : " and ") + setting_text(inspection->settings, name);
  }
}

}  // namespace gdr::tools::topo

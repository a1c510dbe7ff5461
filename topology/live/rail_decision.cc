#include "topology/live/rail_decision.h"

#include "topology/live/slow_links.h"

namespace gdr::topology {
namespace {

std::optional<PathClass> level_of(const DecisionOptions& options, Findings* findings) {
  if (!options.gdr_level.has_value()) return std::nullopt;
  const std::string& note = options.gdr_level->number_note();
  if (!note.empty()) findings->push_back({FindingKind::kGdrLevel, Severity::kInfo, "", note, ""});
  return options.gdr_level->path();
}

RailPlan make_plan(const Machine& machine, const PathTable& paths, RailOptions options,
                   Findings* findings) {
  Result<RailPlan> plan = plan_rails(machine, paths, options);
  if (plan) return std::move(*plan);
  findings->push_back(
      {FindingKind::kRailMap, Severity::kWarning, "",
       "GDR_NCCL_RAIL_MAP does not fit this machine and is not used: " + plan.error().text,
       "correct the map; `GDR_NCCL_RAIL_MAP=MAP nccl-gdr topo` checks one"});
  options.map.reset();
  return *plan_rails(machine, paths, options);  // only a map can make it fail
}

}  // namespace

RailDecision decide(Machine machine, DecisionOptions options, Findings findings) {
  const std::optional<PathClass> level = level_of(options, &findings);
  findings.insert(findings.end(), machine.findings.begin(), machine.findings.end());
  PathTable paths(machine);
  RailPlan plan = make_plan(machine, paths, std::move(options.rails), &findings);
  warn_of_slow_links(machine, plan, &findings);
  return RailDecision{std::move(machine), std::move(paths), std::move(plan), level,
                      std::move(findings)};
}

bool is_flat(const RailDecision& decision) {
  if (decision.machine.gpus.empty() || decision.plan.rails.empty()) return false;
  auto path = [&](size_t gpu, const Rail& rail) {
    return decision.paths.gpu_hca(gpu, static_cast<size_t>(rail.port.hca));
  };
  PathClass first = path(0, decision.plan.rails[0]);
  if (first < PathClass::kPhb) return false;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    for (const Rail& rail : decision.plan.rails) {
      if (path(gpu, rail) != first) return false;
    }
  }
  return true;
}

}  // namespace gdr::topology

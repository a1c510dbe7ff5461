#include "topology/live/rail_decision.h"

#include "topology/live/slow_links.h"

namespace gdr::topology {
namespace {

nccl::Settings make_settings(const DecisionOptions& options, Findings* findings) {
  nccl::Settings settings = options.nccl;
  if (options.gdr_level.has_value()) {
    settings.gdr_level = options.gdr_level->path();
    const std::string& note = options.gdr_level->number_note();
    if (!note.empty()) findings->push_back({Severity::kInfo, "", note, ""});
  }
  return settings;
}

RailPlan make_plan(const Machine& machine, const PathTable& paths, RailOptions options,
                   Findings* findings) {
  Result<RailPlan> plan = plan_rails(machine, paths, options);
  if (plan) return std::move(*plan);
  findings->push_back(
      {Severity::kWarning, "",
       "GDR_NCCL_RAIL_MAP does not fit this machine and is not used: " + plan.error().text,
       "correct the map; `nccl-gdr topo --rail-map MAP` checks one"});
  options.map.reset();
  return *plan_rails(machine, paths, options);  // only a map can make it fail
}

}  // namespace

RailDecision decide(Machine machine, DecisionOptions options, Findings findings) {
  const nccl::Settings settings = make_settings(options, &findings);
  PathTable paths(machine);
  RailPlan plan = make_plan(machine, paths, std::move(options.rails), &findings);
  warn_of_slow_links(machine, plan, &findings);
  nccl::Prediction prediction = predict(machine, plan, settings);
  return RailDecision{std::move(machine), std::move(paths), std::move(plan), std::move(prediction),
                      std::move(findings)};
}

nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings) {
  std::vector<PortRef> devices;
  for (const Rail& rail : plan.rails) {
    if (rail.usable) devices.push_back(rail.port);
  }
  return nccl::Prediction(machine, std::move(devices), settings);
}

PathClass path_between(const RailDecision& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  const bool over_c2c =
      device >= 0 &&
      decision.prediction.device_to_gpu(static_cast<size_t>(device), gpu).path == PathClass::kP2c;
  return over_c2c ? PathClass::kP2c : decision.paths.gpu_hca(gpu, hca);
}

nccl::Verdicts verdicts_between(const RailDecision& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  if (device >= 0) return decision.prediction.verdicts(gpu, static_cast<size_t>(device));
  const nccl::Verdict none{false, false, false,
                           decision.machine.hcas[hca].name + " is not offered to NCCL"};
  return {none, none};
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

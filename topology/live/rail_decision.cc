#include "topology/live/rail_decision.h"

#include <algorithm>
#include <set>

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

// What a port's link runs at in Mb/s.
int link_speed(const Machine& machine, PortRef ref) {
  const Port& port = port_of(machine, ref);
  return port.link_mbps > 0 ? port.link_mbps : port.speed_mbps;
}

// Whether the ports are of one model and link layer. One port of a card can be on InfiniBand and
// another on Ethernet, which need not have one speed.
bool are_alike(const Machine& machine, PortRef a, PortRef b) {
  return hca_of(machine, a).ids == hca_of(machine, b).ids &&
         port_of(machine, a).link_layer == port_of(machine, b).link_layer;
}

// Returns the speed of the fastest rail on a card of the same model in Mb/s.
int model_speed(const Machine& machine, const RailPlan& plan, const Rail& rail) {
  if (hca_of(machine, rail.port).ids.vendor == 0) return 0;
  int speed = 0;
  for (const Rail& other : plan.rails) {
    if (!other.usable || !are_alike(machine, rail.port, other.port)) continue;
    speed = std::max(speed, link_speed(machine, other.port));
  }
  return speed;
}

// Adds a warning for each rail that is slower than the others of its model.
void warn_of_slow_links(const Machine& machine, const RailPlan& plan, Findings* findings) {
  for (const Rail& rail : plan.rails) {
    const int speed = link_speed(machine, rail.port);
    const int others = model_speed(machine, plan, rail);
    if (!rail.usable || speed == 0 || speed >= others) continue;
    findings->push_back({Severity::kWarning, port_label(machine, rail.port),
                         "the link runs at " + std::to_string(speed / 1000) +
                             " Gb/s, where rails on cards of the same model have " +
                             std::to_string(others / 1000) + " Gb/s",
                         "look at the cable, the switch's port and the link's error counters"});
  }
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

#include "tools/topo/restriction.h"

#include <algorithm>

#include "tools/topo/labels.h"

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

}  // namespace gdr::tools::topo

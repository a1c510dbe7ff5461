#include "tools/topo/reach_remedy.h"

#include <algorithm>

#include "tools/topo/nccl_choice.h"

namespace gdr::tools::topo {
namespace {

using topology::nccl::Settings;

bool reaches_all(const RailDecision& decision, const Settings& settings,
                 const std::vector<size_t>& gpus) {
  RailDecision changed = decision;
  changed.prediction = topology::predict(decision.machine, decision.plan, settings);
  return std::none_of(gpus.begin(), gpus.end(),
                      [&](size_t gpu) { return out_of_reach(changed, gpu).has_value(); });
}

}  // namespace

ReachRemedy reach_remedy(const RailDecision& decision, const std::vector<size_t>& gpus) {
  const Settings& current = decision.prediction.settings();
  const auto& all = decision.machine.gpus;
  const bool has_c2c =
      std::any_of(all.begin(), all.end(), [](const auto& gpu) { return gpu.c2c_links > 0; });
  Settings changed = current;
  changed.gdr_c2c = true;
  if (has_c2c && reaches_all(decision, changed, gpus)) return {"export NCCL_NET_GDR_C2C=1", true};
  changed = current;
  changed.gdr_level.reset();
  if (current.gdr_level && reaches_all(decision, changed, gpus)) {
    return {kUnsetLevel, true};
  }
  PathClass farthest = PathClass::kLoc;
  for (size_t gpu : gpus) farthest = std::max(farthest, decision.plan.gpus[gpu].path);
  for (PathClass level : {farthest, PathClass::kSys}) {
    changed.gdr_level = level;
    if (!reaches_all(decision, changed, gpus)) continue;
    return {std::string("export NCCL_NET_GDR_LEVEL=") + topology::to_string(level),
            level != PathClass::kSys};
  }
  return {};
}

}  // namespace gdr::tools::topo

#include "tools/topo/reach_remedy.h"

#include <algorithm>

#include "tools/topo/reach.h"

namespace gdr::tools::topo {

using Setting = ReachRemedy::Setting;

ReachRemedy reach_remedy(const RailDecision& decision, const std::vector<size_t>& gpus) {
  auto reaches_all = [&](const RailDecision& changed) {
    return gpus_out_of_reach(changed, gpus).empty();
  };
  const auto& all = decision.machine.gpus;
  const bool has_c2c =
      std::any_of(all.begin(), all.end(), [](const Gpu& gpu) { return gpu.c2c_links > 0; });
  if (has_c2c && reaches_all(with_c2c(decision)))
    return {Setting::kC2c, "export NCCL_NET_GDR_C2C=1", true};
  const bool has_level = decision.prediction.settings().gdr_level.has_value();
  if (has_level && reaches_all(with_level(decision, std::nullopt)))
    return {Setting::kUnsetLevel, "", true};
  PathClass farthest = PathClass::kLoc;
  for (size_t gpu : gpus) farthest = std::max(farthest, decision.plan.gpus[gpu].path);
  const std::optional<PathClass> level = best_level(decision, gpus, {farthest, PathClass::kSys});
  if (!level.has_value() || !reaches_all(with_level(decision, level))) return {};
  return {Setting::kLevel, std::string("export NCCL_NET_GDR_LEVEL=") + topology::to_string(*level),
          *level != PathClass::kSys};
}

}  // namespace gdr::tools::topo

#include "tools/inspection/reach.h"

#include <numeric>

namespace gdr::tools::topo {
namespace {

using topology::nccl::Settings;

RailDecision with_settings(const RailDecision& decision, const Settings& settings) {
  RailDecision changed = decision;
  changed.prediction = topology::predict(changed.machine, changed.plan, settings);
  return changed;
}

}  // namespace

std::optional<Verdict> out_of_reach(const RailDecision& decision, size_t gpu) {
  const Rail* rail = decision.plan.first_rail_of(gpu);
  if (rail == nullptr) return std::nullopt;
  const auto verdicts = verdicts_between(decision, gpu, static_cast<size_t>(rail->port.hca));
  const Verdict& verdict = verdicts.receive.direct ? verdicts.send : verdicts.receive;
  if (verdict.direct || !verdict.too_far) return std::nullopt;
  return verdict;
}

std::vector<size_t> gpus_out_of_reach(const RailDecision& decision,
                                      const std::vector<size_t>& gpus) {
  std::vector<size_t> far = gpus;
  std::erase_if(far, [&](size_t gpu) { return !out_of_reach(decision, gpu).has_value(); });
  return far;
}

std::vector<size_t> gpus_out_of_reach(const RailDecision& decision) {
  std::vector<size_t> all(decision.machine.gpus.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return gpus_out_of_reach(decision, all);
}

RailDecision with_level(const RailDecision& decision, std::optional<PathClass> level) {
  Settings settings = decision.prediction.settings();
  settings.gdr_level = level;
  return with_settings(decision, settings);
}

RailDecision with_c2c(const RailDecision& decision) {
  Settings settings = decision.prediction.settings();
  settings.gdr_c2c = true;
  return with_settings(decision, settings);
}

std::optional<PathClass> best_level(const RailDecision& decision, const std::vector<size_t>& gpus,
                                    std::initializer_list<PathClass> levels) {
  std::optional<PathClass> best;
  size_t left = gpus_out_of_reach(decision, gpus).size();
  for (PathClass level : levels) {
    const size_t remaining = gpus_out_of_reach(with_level(decision, level), gpus).size();
    if (remaining >= left) continue;
    left = remaining;
    best = level;
  }
  return best;
}

}  // namespace gdr::tools::topo

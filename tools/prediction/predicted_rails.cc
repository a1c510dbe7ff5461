#include "tools/prediction/predicted_rails.h"

#include <algorithm>
#include <utility>

namespace gdr::topology {
namespace {

// Returns the devices of a prediction that NCCL uses for the GPU though they are not its rails.
std::string foreign_devices(const Machine& machine, const RailPlan& plan,
                            const nccl::Prediction& prediction, size_t gpu) {
  std::string names;
  const std::vector<const Rail*> own = plan.rails_of(gpu);
  for (size_t device = 0; device < prediction.devices().size(); ++device) {
    const PortRef port = prediction.devices()[device];
    const std::vector<size_t>& used = prediction.devices_of_gpu(gpu);
    const bool is_used = std::find(used.begin(), used.end(), device) != used.end();
    const bool is_own = std::any_of(own.begin(), own.end(),
                                    [port](const Rail* rail) { return rail->port == port; });
    if (is_used && !is_own) names += (names.empty() ? "" : ", ") + port_name(machine, port);
  }
  return names;
}

}  // namespace

PredictedRails predict(RailDecision decision, const nccl::Settings& settings) {
  decision.gdr_level = settings.gdr_level;
  nccl::Prediction prediction = predict(decision.machine, decision.plan, settings);
  return PredictedRails{std::move(decision), std::move(prediction)};
}

nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings) {
  return nccl::Prediction(machine, usable_ports(plan), settings);
}

PathClass path_between(const PredictedRails& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  const bool over_c2c =
      device >= 0 &&
      decision.prediction.device_to_gpu(static_cast<size_t>(device), gpu).path == PathClass::kP2c;
  return over_c2c ? PathClass::kP2c : decision.paths.gpu_hca(gpu, hca);
}

nccl::Verdicts verdicts_between(const PredictedRails& decision, size_t gpu, size_t hca) {
  const int device = decision.prediction.device_of(hca);
  if (device >= 0) return decision.prediction.verdicts(gpu, static_cast<size_t>(device));
  const nccl::Verdict none{false, false, false,
                           decision.machine.hcas[hca].name + " is not offered to NCCL"};
  return {none, none};
}

Findings unfollowed_rails(const Machine& grouped, const RailPlan& plan,
                          const nccl::Settings& settings) {
  Findings findings;
  const nccl::Prediction prediction = predict(grouped, plan, settings);
  for (size_t gpu = 0; gpu < grouped.gpus.size(); ++gpu) {
    if (plan.gpus[gpu].rails.empty()) continue;
    const std::string names = foreign_devices(grouped, plan, prediction, gpu);
    if (names.empty()) continue;
    findings.push_back(
        {FindingKind::kRailMapIgnored, Severity::kWarning, "GPU" + std::to_string(gpu),
         "even with the file NCCL uses " + names + ", which the map gives to other GPUs", ""});
  }
  return findings;
}

}  // namespace gdr::topology

#include "tools/prediction/predicted_rails.h"

#include <utility>

namespace gdr::topology {

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

}  // namespace gdr::topology

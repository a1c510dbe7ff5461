// The rails of a machine, as the plugin decides them, with what NCCL will choose among them.
#pragma once

#include "tools/prediction/prediction.h"
#include "topology/live/rail_decision.h"

namespace gdr::topology {

struct PredictedRails : RailDecision {
  nccl::Prediction prediction;  // device i is the i-th usable rail
};

// Adds the prediction to a decision, whose level becomes that of the settings.
PredictedRails predict(RailDecision decision, const nccl::Settings& settings);

// Returns NCCL's prediction for the usable rails of a plan, in their order.
nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings);

// Returns the class of the path between a GPU and an HCA: that of the machine or, where NCCL goes
// over NVLink-C2C and PCIe, kP2c.
PathClass path_between(const PredictedRails& decision, size_t gpu, size_t hca);

// Returns NCCL's verdicts on a GPU and an HCA. NCCL does not see an HCA that carries no usable
// rail, so both are "no" for it.
nccl::Verdicts verdicts_between(const PredictedRails& decision, size_t gpu, size_t hca);

}  // namespace gdr::topology

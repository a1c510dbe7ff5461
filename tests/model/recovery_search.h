// The searches through the model of the recovery. They are compiled with the model, since tests are
// compiled without optimisation.
#pragma once

#include "tests/model/explorer.h"
#include "tests/model/recovery_model.h"
#include "tests/model/walker.h"

namespace gdr::model {

Exploration<RecoveryModel> explore(const RecoveryModel& model, ExplorationLimits limits = {});
Walk<RecoveryModel> walk(const RecoveryModel& model, uint64_t seed, size_t walks);

// The violation and the steps to it, one a line.
std::string to_text(const std::string& violation, const std::vector<RecoveryModel::Step>& trace);

}  // namespace gdr::model

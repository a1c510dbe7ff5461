#include "tests/model/recovery_search.h"

namespace gdr::model {

Exploration<RecoveryModel> explore(const RecoveryModel& model, ExplorationLimits limits) {
  return Explorer(model, limits).run();
}

Walk<RecoveryModel> walk(const RecoveryModel& model, uint64_t seed, size_t walks) {
  return walk_randomly(model, seed, walks);
}

std::string to_text(const std::string& violation, const std::vector<RecoveryModel::Step>& trace) {
  std::string text = violation + "\n";
  for (const RecoveryModel::Step& step : trace) text += "  " + to_string(step) + "\n";
  return text;
}

}  // namespace gdr::model

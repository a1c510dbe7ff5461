#include "tools/doctor/joined.h"

#include <algorithm>
#include <utility>

namespace gdr::tools::doctor {
namespace {

bool are_joinable(const Observation& a, const Observation& b) {
  return a.verdict == b.verdict && a.evidence == b.evidence && a.fix == b.fix &&
         a.needs == b.needs && a.subject.empty() == b.subject.empty();
}

void add_steps(std::vector<FixStep>* steps, const std::vector<FixStep>& more) {
  for (const FixStep& step : more) {
    const bool known = std::any_of(steps->begin(), steps->end(),
                                   [&](const FixStep& one) { return one.command == step.command; });
    if (!known) steps->push_back(step);
  }
}

}  // namespace

Observations with_joined_subjects(Observations observations) {
  Observations result;
  for (Observation& one : observations) {
    const auto same = std::find_if(result.begin(), result.end(), [&](const Observation& other) {
      return are_joinable(one, other);
    });
    if (same == result.end()) {
      result.push_back(std::move(one));
      continue;
    }
    if (!one.subject.empty()) same->subject += ", " + one.subject;
    add_steps(&same->steps, one.steps);
  }
  return result;
}

}  // namespace gdr::tools::doctor

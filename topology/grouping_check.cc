#include "topology/grouping_check.h"

#include <algorithm>

namespace gdr::topology {
namespace {

std::string gpu_name(size_t gpu) { return "GPU" + std::to_string(gpu); }

std::string change_text(const Machine& machine, const ClassChange& change) {
  const std::string other = change.with == ClassChange::With::kGpu
                                ? gpu_name(change.other)
                                : machine.hcas[change.other].name;
  return other + " " + to_string(change.was) + " to " + to_string(change.is);
}

bool hinders_peer_copies(const ClassChange& change) {
  return change.with == ClassChange::With::kGpu && change.was <= PathClass::kPxb &&
         change.is > PathClass::kPxb;
}

}  // namespace

std::vector<ClassChange> class_changes(const Machine& machine, const Machine& grouped) {
  const PathTable before(machine), after(grouped);
  std::vector<ClassChange> changes;
  auto add = [&](size_t gpu, ClassChange::With with, size_t other, PathClass was, PathClass is) {
    if (was != is) changes.push_back({gpu, with, other, was, is});
  };
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (size_t other = gpu + 1; other < machine.gpus.size(); ++other) {
      add(gpu, ClassChange::With::kGpu, other, before.gpu_gpu(gpu, other),
          after.gpu_gpu(gpu, other));
    }
    for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
      add(gpu, ClassChange::With::kHca, hca, before.gpu_hca(gpu, hca), after.gpu_hca(gpu, hca));
    }
  }
  return changes;
}

Findings grouping_findings(const Machine& machine, const Machine& grouped) {
  const std::vector<ClassChange> changes = class_changes(machine, grouped);
  Findings findings;
  for (auto from = changes.begin(); from != changes.end();) {
    const auto to = std::find_if(from, changes.end(),
                                 [from](const ClassChange& one) { return one.gpu != from->gpu; });
    std::string text;
    for (auto one = from; one != to; ++one) {
      text += (text.empty() ? "" : ", ") + change_text(machine, *one);
    }
    const bool warn = std::any_of(from, to, hinders_peer_copies);
    findings.push_back({FindingKind::kFileDistances, warn ? Severity::kWarning : Severity::kInfo,
                        gpu_name(from->gpu),
                        "the file shows other distances than the machine: " + text, ""});
    from = to;
  }
  return findings;
}

}  // namespace gdr::topology

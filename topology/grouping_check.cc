#include "topology/grouping_check.h"

#include <algorithm>

#include "topology/nccl/prediction.h"

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

Findings findings_of_changes(const Machine& machine, const std::vector<ClassChange>& changes) {
  Findings findings;
  for (auto from = changes.begin(); from != changes.end();) {
    const auto to = std::find_if(from, changes.end(),
                                 [from](const ClassChange& one) { return one.gpu != from->gpu; });
    std::string text;
    for (auto one = from; one != to; ++one) {
      text += (text.empty() ? "" : ", ") + change_text(machine, *one);
    }
    const bool warn = std::any_of(from, to, hinders_peer_copies);
    findings.push_back({warn ? Severity::kWarning : Severity::kInfo, gpu_name(from->gpu),
                        "the file shows other distances than the machine: " + text, ""});
    from = to;
  }
  return findings;
}

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

Findings grouping_findings(const Machine& machine, const Machine& grouped, const RailPlan& plan,
                           const nccl::Settings& settings) {
  Findings findings = findings_of_changes(machine, class_changes(machine, grouped));
  std::vector<PortRef> devices;
  for (const Rail& rail : plan.rails) {
    if (rail.usable) devices.push_back(rail.port);
  }
  const nccl::Prediction prediction(grouped, std::move(devices), settings);
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (plan.gpus[gpu].rails.empty()) continue;
    const std::string names = foreign_devices(machine, plan, prediction, gpu);
    if (names.empty()) continue;
    findings.push_back({Severity::kWarning, gpu_name(gpu),
                        "even with the file NCCL uses " + names + ", which are not its rails", ""});
  }
  return findings;
}

}  // namespace gdr::topology

#include "tools/topo/gpu_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace gdr::tools::topo {
namespace {

using topology::Hca;
using topology::Machine;
using topology::Rail;
using RailDecision = topology::PredictedRails;

using Model = std::pair<uint16_t, uint16_t>;  // vendor and device

// Returns the uppermost switch above a device, an index in Machine::switches; -1: there is none.
int top_switch(const Machine& machine, const topology::Attachment& at) {
  int top = at.parent;
  while (top >= 0 && machine.switches[static_cast<size_t>(top)].at.parent >= 0) {
    top = machine.switches[static_cast<size_t>(top)].at.parent;
  }
  return top;
}

// The number of the group's rails by the model of their HCA; unknown models are left out.
std::map<Model, size_t> rails_by_model(const RailDecision& decision, const GpuGroup& group) {
  std::map<Model, size_t> counts;
  for (size_t rail : group.rails) {
    const Hca& hca = hca_of(decision.machine, decision.plan.rails[rail].port);
    if (hca.ids.vendor != 0) ++counts[{hca.ids.vendor, hca.ids.device}];
  }
  return counts;
}

// Whether both groups have as many GPUs, of one model, below switches of one model.
bool are_like(const Machine& machine, const GpuGroup& a, const GpuGroup& b) {
  if (a.top < 0 || b.top < 0 || a.gpus.size() != b.gpus.size()) return false;
  const auto& top_a = machine.switches[static_cast<size_t>(a.top)].ids;
  const auto& top_b = machine.switches[static_cast<size_t>(b.top)].ids;
  if (top_a.vendor != top_b.vendor || top_a.device != top_b.device) return false;
  const topology::Gpu& first = machine.gpus[a.gpus[0]];
  return std::all_of(b.gpus.begin(), b.gpus.end(),
                     [&](size_t gpu) { return is_same_gpu_model(machine.gpus[gpu], first); });
}

bool has_fewer_hcas(const RailDecision& decision, const GpuGroup& group, const GpuGroup& other) {
  if (!are_like(decision.machine, group, other)) return false;
  const std::map<Model, size_t> theirs = rails_by_model(decision, other);
  const std::map<Model, size_t> own = rails_by_model(decision, group);
  return std::any_of(own.begin(), own.end(), [&](const auto& one) {
    auto found = theirs.find(one.first);
    return found != theirs.end() && one.second < found->second;
  });
}

bool is_uneven(const GpuGroup& group) {
  const size_t gpus = group.gpus.size(), rails = group.rails.size();
  return group.top >= 0 && rails > 0 && rails % gpus != 0 && gpus % rails != 0;
}

}  // namespace

std::vector<GpuGroup> gpu_groups(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  std::vector<GpuGroup> groups;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const int top = top_switch(machine, machine.gpus[gpu].at);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [top](const GpuGroup& one) { return top >= 0 && one.top == top; });
    if (group == groups.end()) group = groups.insert(groups.end(), GpuGroup{top, {}, {}});
    group->gpus.push_back(gpu);
  }
  for (GpuGroup& group : groups) {
    for (size_t i = 0; group.top >= 0 && i < decision.plan.rails.size(); ++i) {
      const Hca& hca = hca_of(machine, decision.plan.rails[i].port);
      if (top_switch(machine, hca.at) == group.top) group.rails.push_back(i);
    }
  }
  return groups;
}

bool is_same_gpu_model(const topology::Gpu& a, const topology::Gpu& b) {
  return a.ids == b.ids && a.model == b.model;
}

bool should_be_even(size_t gpus, size_t rails) {
  auto is_even = [rails](size_t count) {
    return count > 0 && rails > 0 && (rails % count == 0 || count % rails == 0);
  };
  const bool lacks_hca = (rails + 1) % gpus == 0;
  const bool lacks_gpu = gpus % 2 == 1 && is_even(gpus + 1);
  return is_even(gpus) || lacks_hca || lacks_gpu;
}

std::set<size_t> gpus_of_lacking_groups(const RailDecision& decision) {
  const std::vector<GpuGroup> groups = gpu_groups(decision);
  std::set<size_t> gpus;
  for (const GpuGroup& group : groups) {
    const bool fewer = std::any_of(groups.begin(), groups.end(), [&](const GpuGroup& other) {
      return has_fewer_hcas(decision, group, other);
    });
    const bool uneven = is_uneven(group) && should_be_even(group.gpus.size(), group.rails.size());
    if (fewer || uneven) gpus.insert(group.gpus.begin(), group.gpus.end());
  }
  return gpus;
}

}  // namespace gdr::tools::topo

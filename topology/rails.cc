#include "topology/rails.h"

#include <algorithm>
#include <set>

#include "topology/rail_assignment.h"

namespace gdr::topology {
namespace {

Rail make_rail(const Machine& machine, PortRef ref, int id) {
  bool down = port_of(machine, ref).state == Port::State::kDown;
  return Rail{id, ref, !down, down ? "the port is down" : ""};
}

// Makes rails of the candidates. Numbers that the user gave are kept, and the other rails get the
// free numbers in order of PCI address.
void number_rails(const Machine& machine, const std::vector<RailCandidate>& ports, RailPlan* plan) {
  std::set<int> taken;
  for (const RailCandidate& port : ports) {
    if (port.excluded.empty() && port.named != nullptr) taken.insert(port.named->rail);
  }
  int next = 0;
  for (const RailCandidate& port : ports) {
    if (!port.excluded.empty()) {
      plan->excluded.push_back(ExcludedPort{port.ref, port.excluded});
      continue;
    }
    int id = port.named != nullptr ? port.named->rail : -1;
    if (id < 0) {
      while (taken.count(next) > 0) ++next;
      id = next++;
    }
    plan->rails.push_back(make_rail(machine, port.ref, id));
  }
  std::stable_sort(plan->rails.begin(), plan->rails.end(),
                   [](const Rail& a, const Rail& b) { return a.id < b.id; });
}

std::string list_of_hcas(const Machine& machine) {
  std::string text;
  for (const Hca& hca : machine.hcas) text += (text.empty() ? "" : ", ") + hca.name;
  return text.empty() ? "this machine has none" : "this machine has " + text;
}

// Returns the port that a target of the map names.
Result<PortRef> find_port(const Machine& machine, const RailMap::Target& target) {
  for (size_t i = 0; i < machine.hcas.size(); ++i) {
    if (machine.hcas[i].name != target.hca) continue;
    const std::vector<Port>& ports = machine.hcas[i].ports;
    for (size_t port = 0; port < ports.size(); ++port) {
      if (target.port < 0 || ports[port].number == target.port) {
        return PortRef{static_cast<int>(i), static_cast<int>(port)};
      }
    }
    return fail(Code::kInvalidUsage,
                target.hca + " has no port " + std::to_string(target.port) + " that is in use");
  }
  return fail(Code::kInvalidUsage, "no HCA is named " + target.hca + "; " + list_of_hcas(machine));
}

Result<size_t> find_gpu(const Machine& machine, const RailMap::Entry& entry) {
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    bool same = entry.bdf.has_value() ? machine.gpus[i].bdf == *entry.bdf
                                      : static_cast<int>(i) == entry.index;
    if (same) return i;
  }
  return fail(Code::kInvalidUsage, "there is no GPU " + entry.gpu_text + " among the " +
                                       std::to_string(machine.gpus.size()) + " of this machine");
}

// Returns the position of the port's rail, which is added where the plan lacks it.
int rail_at(const Machine& machine, PortRef ref, RailPlan* plan) {
  if (int known = rail_of(*plan, ref); known >= 0) return known;
  int position = static_cast<int>(plan->rails.size());
  plan->rails.push_back(make_rail(machine, ref, position));
  return position;
}

Status apply_map(const Machine& machine, const RailMap& map, RailPlan* plan) {
  std::set<size_t> seen;
  for (const RailMap::Entry& entry : map.entries()) {
    Result<size_t> gpu = find_gpu(machine, entry);
    if (!gpu) return forward_error(gpu);
    if (!seen.insert(*gpu).second) {
      return fail(Code::kInvalidUsage, "GPU " + entry.gpu_text + " has two entries");
    }
    for (const RailMap::Target& target : entry.targets) {
      Result<PortRef> port = find_port(machine, target);
      if (!port) return forward_error(port);
      int rail = rail_at(machine, *port, plan);
      plan->gpus[*gpu].rails.push_back(rail);
    }
  }
  return {};
}

Result<RailPlan> plan_by_map(const Machine& machine, const PathTable& paths, const RailMap& map,
                             RailPlan plan) {
  if (Status status = apply_map(machine, map, &plan); !status) return forward_error(status);
  for (const RailCandidate& port : all_ports(machine, {})) {
    if (rail_of(plan, port.ref) >= 0) continue;
    plan.excluded.push_back(ExcludedPort{port.ref, "not in GDR_NCCL_RAIL_MAP"});
  }
  assign_rails(machine, paths, &plan);
  return plan;
}

}  // namespace

Result<RailPlan> plan_rails(const Machine& machine, const PathTable& paths,
                            const RailOptions& options) {
  RailPlan plan;
  plan.gpus.resize(machine.gpus.size());
  if (options.map.has_value()) return plan_by_map(machine, paths, *options.map, std::move(plan));
  number_rails(machine, rail_candidates(machine, paths, options.named), &plan);
  assign_rails(machine, paths, &plan);
  return plan;
}

std::vector<const Rail*> RailPlan::rails_of(size_t gpu) const {
  std::vector<const Rail*> own;
  for (int position : gpus[gpu].rails) own.push_back(&rails[position]);
  return own;
}

const Rail* RailPlan::first_rail_of(size_t gpu) const {
  return gpus[gpu].rails.empty() ? nullptr : &rails[gpus[gpu].rails.front()];
}

int rail_of(const RailPlan& plan, PortRef port) {
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    if (plan.rails[i].port == port) return static_cast<int>(i);
  }
  return -1;
}

void set_own_paths(const PathTable& paths, RailPlan* plan) {
  for (size_t gpu = 0; gpu < plan->gpus.size(); ++gpu) {
    const Rail* first = plan->first_rail_of(gpu);
    if (first != nullptr) plan->gpus[gpu].path = paths.gpu_hca(gpu, first->port.hca);
  }
}

}  // namespace gdr::topology

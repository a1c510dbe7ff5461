#include "topology/rails.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

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

// Returns the positions of the rails that are nearest to the GPU.
std::vector<int> nearest_rails(const PathTable& paths, const RailPlan& plan, size_t gpu,
                               bool only_usable) {
  std::vector<int> nearest;
  PathClass least = PathClass::kSys;
  for (size_t i = 0; i < plan.rails.size(); ++i) {
    if (only_usable && !plan.rails[i].usable) continue;
    PathClass path = paths.gpu_hca(gpu, plan.rails[i].port.hca);
    if (nearest.empty() || path < least) {
      nearest.clear();
      least = path;
    }
    if (path == least) nearest.push_back(static_cast<int>(i));
  }
  return nearest;
}

// Divides rails among the GPUs that have them as their nearest. The i-th GPU gets the i-th rail, or
// the i-th block of neighbours where there are more rails than GPUs. Only the rails with the least
// load are divided, where they suffice; otherwise each GPU takes the least loaded rail in turn.
void assign_rails(const std::vector<size_t>& gpus, const std::vector<int>& rails,
                  std::vector<int>* load, RailPlan* plan) {
  int least = INT_MAX;
  for (int rail : rails) least = std::min(least, (*load)[rail]);
  std::vector<int> free;
  for (int rail : rails) {
    if ((*load)[rail] == least) free.push_back(rail);
  }
  if (free.size() >= gpus.size()) {
    for (size_t i = 0; i < gpus.size(); ++i) {
      size_t from = i * free.size() / gpus.size(), to = (i + 1) * free.size() / gpus.size();
      plan->gpus[gpus[i]].rails.assign(free.begin() + static_cast<long>(from),
                                       free.begin() + static_cast<long>(to));
      for (size_t rail = from; rail < to; ++rail) ++(*load)[free[rail]];
    }
    return;
  }
  for (size_t gpu : gpus) {
    int lightest = *std::min_element(rails.begin(), rails.end(),
                                     [load](int a, int b) { return (*load)[a] < (*load)[b]; });
    ++(*load)[lightest];
    plan->gpus[gpu].rails = {lightest};
  }
}

// Assigns rails to the GPUs that have none.
void assign_unassigned(const PathTable& paths, bool only_usable, RailPlan* plan) {
  std::vector<int> load(plan->rails.size(), 0);
  // GPUs with the same nearest rails, those with the fewest first, then in the order of their
  // rails.
  std::map<std::pair<size_t, std::vector<int>>, std::vector<size_t>> groups;
  for (size_t gpu = 0; gpu < plan->gpus.size(); ++gpu) {
    for (int rail : plan->gpus[gpu].rails) ++load[rail];
    if (!plan->gpus[gpu].rails.empty()) continue;
    std::vector<int> nearest = nearest_rails(paths, *plan, gpu, only_usable);
    if (!nearest.empty()) groups[{nearest.size(), nearest}].push_back(gpu);
  }
  for (const auto& [rails, gpus] : groups) assign_rails(gpus, rails.second, &load, plan);
}

// Assigns rails to all GPUs; those that have some by the map keep them. Rails that are down are
// assigned like the others and then taken away, so that the rail of a GPU does not depend on
// another rail's link.
void assign(const PathTable& paths, RailPlan* plan) {
  assign_unassigned(paths, false, plan);
  for (GpuRails& own : plan->gpus) {
    std::erase_if(own.rails, [plan](int rail) { return !plan->rails[rail].usable; });
  }
  assign_unassigned(paths, true, plan);
  set_own_paths(paths, plan);
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
  assign(paths, &plan);
  return plan;
}

}  // namespace

Result<RailPlan> plan_rails(const Machine& machine, const PathTable& paths,
                            const RailOptions& options) {
  RailPlan plan;
  plan.gpus.resize(machine.gpus.size());
  if (options.map.has_value()) return plan_by_map(machine, paths, *options.map, std::move(plan));
  number_rails(machine, rail_candidates(machine, paths, options.named), &plan);
  assign(paths, &plan);
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

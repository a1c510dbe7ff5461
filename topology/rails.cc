#include "topology/rails.h"

#include <algorithm>
#include <climits>
#include <map>
#include <set>

namespace gdr::topology {
namespace {

// A port of which it is being decided whether it is a rail.
struct Candidate {
  PortRef ref;
  const NamedPort* named = nullptr;  // null: not named by the user
  std::string excluded;              // the reason for excluding it; "" while it may be a rail
};

std::string gbps(int mbps) { return std::to_string(mbps / 1000) + " Gb/s"; }

std::vector<Candidate> all_ports(const Machine& machine, const RailOptions& options) {
  std::vector<Candidate> ports;
  for (size_t hca = 0; hca < machine.hcas.size(); ++hca) {
    for (size_t port = 0; port < machine.hcas[hca].ports.size(); ++port) {
      Candidate candidate{{static_cast<int>(hca), static_cast<int>(port)}, nullptr, ""};
      for (const NamedPort& named : options.named) {
        bool same_port = named.port < 0 || named.port == machine.hcas[hca].ports[port].number;
        if (named.hca == machine.hcas[hca].name && same_port) candidate.named = &named;
      }
      ports.push_back(candidate);
    }
  }
  return ports;
}

// Excludes virtual functions beside their physical ones: they share a port, so that both together
// are no faster than one.
void exclude_virtual_functions(const Machine& machine, std::vector<Candidate>* ports) {
  for (Candidate& port : *ports) {
    const Hca& hca = machine.hcas[port.ref.hca];
    if (port.named != nullptr || !hca.physical_function.has_value()) continue;
    for (const Hca& other : machine.hcas) {
      if (other.bdf != hca.physical_function) continue;
      port.excluded = "a virtual function of " + other.name + ", whose link it shares";
    }
  }
}

// Returns whether port a is as near as port b, or nearer, for every GPU.
bool is_as_near_for_all(const Machine& machine, const PathTable& paths, PortRef a, PortRef b) {
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (paths.gpu_hca(gpu, a.hca) > paths.gpu_hca(gpu, b.hca)) return false;
  }
  return true;
}

// Returns the speed of a port in Mb/s, or 0 where it is unknown. What a port that is down reports
// means nothing, so it counts with the speed of a port that is up on a card with the same ids.
int speed_of(const Machine& machine, const std::vector<Candidate>& ports, PortRef ref) {
  const Port& port = port_of(machine, ref);
  if (port.state != Port::State::kDown) return port.speed_mbps;
  const PciIds& ids = machine.hcas[ref.hca].ids;
  int speed = 0;
  for (const Candidate& other : ports) {
    const Port& up = port_of(machine, other.ref);
    bool same_make = ids.vendor != 0 && machine.hcas[other.ref.hca].ids == ids;
    if (same_make && up.state != Port::State::kDown) speed = std::max(speed, up.speed_mbps);
  }
  return speed;
}

// Excludes slow ports, since storage and management networks are slower than the network of the
// GPUs. A slower port may still be the better rail for a GPU that it is nearer to. So a port is
// slow only where it has half the speed of a port that is no farther from any GPU, or a quarter of
// any port's.
void exclude_slow(const Machine& machine, const PathTable& paths, std::vector<Candidate>* ports) {
  for (Candidate& port : *ports) {
    int speed = speed_of(machine, *ports, port.ref);
    if (port.named != nullptr || !port.excluded.empty() || speed == 0) continue;
    for (const Candidate& other : *ports) {
      int fast = speed_of(machine, *ports, other.ref);
      bool slow = fast >= 4 * speed ||
                  (fast >= 2 * speed && is_as_near_for_all(machine, paths, other.ref, port.ref));
      if (!slow) continue;
      port.excluded = "slow: " + gbps(speed) + ", where " + port_name(machine, other.ref) +
                      " has " + gbps(fast);
      break;
    }
  }
}

std::string far_reason(const Machine& machine, const PathTable& paths, int hca, size_t gpu,
                       int nearer) {
  return std::string("no GPU is nearest to it: at best ") + to_string(paths.gpu_hca(gpu, hca)) +
         " (GPU" + std::to_string(gpu) + "), which has " + machine.hcas[nearer].name + " at " +
         to_string(paths.gpu_hca(gpu, nearer));
}

// Excludes ports that are not among the nearest ports of any GPU. Ports that are down count like
// those that are up: a link that fails must neither turn the storage network into a rail nor
// renumber rails.
void exclude_far(const Machine& machine, const PathTable& paths, std::vector<Candidate>* ports) {
  if (machine.gpus.empty()) return;
  std::vector<int> nearest(machine.gpus.size(), -1);
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    for (const Candidate& port : *ports) {
      if (!port.excluded.empty()) continue;
      int hca = port.ref.hca;
      if (nearest[gpu] < 0 || paths.gpu_hca(gpu, hca) < paths.gpu_hca(gpu, nearest[gpu])) {
        nearest[gpu] = hca;
      }
    }
  }
  for (Candidate& port : *ports) {
    if (port.named != nullptr || !port.excluded.empty()) continue;
    size_t closest = 0;
    bool near = false;
    for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
      PathClass path = paths.gpu_hca(gpu, port.ref.hca);
      near = near || path == paths.gpu_hca(gpu, nearest[gpu]);
      if (path < paths.gpu_hca(closest, port.ref.hca)) closest = gpu;
    }
    if (near) continue;
    port.excluded = far_reason(machine, paths, port.ref.hca, closest, nearest[closest]);
  }
}

Rail make_rail(const Machine& machine, PortRef ref, int id) {
  bool down = port_of(machine, ref).state == Port::State::kDown;
  return Rail{id, ref, !down, down ? "the port is down" : ""};
}

// Makes rails of the candidates. Numbers that the user gave are kept, and the other rails get the
// free numbers in order of PCI address.
void number_rails(const Machine& machine, const std::vector<Candidate>& ports, RailPlan* plan) {
  std::set<int> taken;
  for (const Candidate& port : ports) {
    if (port.excluded.empty() && port.named != nullptr) taken.insert(port.named->rail);
  }
  int next = 0;
  for (const Candidate& port : ports) {
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

// --- The user's own map ---

std::string list_of_hcas(const Machine& machine) {
  std::string text;
  for (const Hca& hca : machine.hcas) text += (text.empty() ? "" : ", ") + hca.name;
  return text.empty() ? "this machine has none" : "this machine has " + text;
}

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
  for (const Candidate& port : all_ports(machine, {})) {
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
  std::vector<Candidate> ports = all_ports(machine, options);
  exclude_virtual_functions(machine, &ports);
  exclude_slow(machine, paths, &ports);
  exclude_far(machine, paths, &ports);
  number_rails(machine, ports, &plan);
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

const Hca& hca_of(const Machine& machine, PortRef port) { return machine.hcas[port.hca]; }

const Port& port_of(const Machine& machine, PortRef port) {
  return hca_of(machine, port).ports[port.port];
}

std::string port_name(const Machine& machine, PortRef port) {
  const Hca& hca = hca_of(machine, port);
  if (hca.ports.size() == 1 && hca.ports[0].number == 1) return hca.name;
  return port_label(machine, port);
}

std::string port_label(const Machine& machine, PortRef port) {
  return hca_of(machine, port).name + ":" + std::to_string(port_of(machine, port).number);
}

}  // namespace gdr::topology

// Shares of rails: whether GPUs of one kind are equally well connected to the network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tools/doctor/topology.h"
#include "tools/inspection/restriction.h"
#include "topology/rail_assignment.h"

namespace gdr::tools::doctor {
namespace {

using Model = std::pair<uint16_t, uint16_t>;  // vendor and device

// GPUs below one uppermost switch, and the rails there.
struct GpuGroup {
  int top = -1;               // index in Machine::switches; -1: one GPU, on the CPU itself
  std::vector<size_t> gpus;   // ascending
  std::vector<size_t> rails;  // positions in RailPlan::rails, ascending, whether up or down
};

// Whether the GPUs are of one model, and on boards of one maker.
bool is_same_gpu_model(const topology::Gpu& a, const topology::Gpu& b) {
  return a.ids == b.ids && a.model == b.model;
}

// Returns the uppermost switch above a device, an index in Machine::switches; -1: there is none.
int top_switch(const Machine& machine, const topology::Attachment& at) {
  int top = at.parent;
  while (top >= 0 && machine.switches[static_cast<size_t>(top)].at.parent >= 0) {
    top = machine.switches[static_cast<size_t>(top)].at.parent;
  }
  return top;
}

// Returns the groups of all GPUs, in the order of their first GPU. Each GPU below no switch is a
// group without rails.
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

// Whether uneven shares of `rails` among `gpus` are a fault: an even division is possible, or it
// would be with one more HCA, so that each GPU has one, or with one more GPU than an odd number.
// Else it is the design.
bool should_be_even(size_t gpus, size_t rails) {
  auto is_even = [rails](size_t count) {
    return count > 0 && rails > 0 && (rails % count == 0 || count % rails == 0);
  };
  const bool lacks_hca = (rails + 1) % gpus == 0;
  const bool lacks_gpu = gpus % 2 == 1 && is_even(gpus + 1);
  return is_even(gpus) || lacks_hca || lacks_gpu;
}

// Returns the GPUs of groups that lack something beside others: fewer HCAs of a known model, though
// some, than an equal number of GPUs below a switch of the same model has; or numbers of GPUs and
// rails that should come out even, and do not.
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

// Returns "1/4 of a rail", "1 rail", "1.5 rails".
std::string share_text(double share) {
  const double parts = share > 0 ? 1 / share : 0;
  if (share < 1 && std::abs(parts - std::round(parts)) < topo::kShareRounding) {
    return fmt::format("1/{:.0f} of a rail", parts);
  }
  return fmt::format("{:.3g} {}", share,
                     std::abs(share - 1) < topo::kShareRounding ? "rail" : "rails");
}

constexpr char kCompare[] =
    "look for an HCA or a GPU that is missing or in the wrong slot (lspci -tv); nccl-gdr doctor "
    "--expect compares with a machine that works";

std::vector<size_t> peers_of(const Machine& machine, size_t gpu) {
  std::vector<size_t> peers;
  for (size_t other = 0; other < machine.gpus.size(); ++other) {
    if (is_same_gpu_model(machine.gpus[gpu], machine.gpus[other])) peers.push_back(other);
  }
  return peers;
}

// The number of rails that some of the GPUs use.
size_t rails_of(const RailDecision& decision, const std::vector<size_t>& gpus) {
  std::set<int> rails;
  for (size_t gpu : gpus) {
    const std::vector<int>& own = decision.plan.gpus[gpu].rails;
    rails.insert(own.begin(), own.end());
  }
  return rails.size();
}

// GPUs of one model and one share, which is smaller than that of other GPUs of the model.
struct SmallShare {
  std::vector<size_t> gpus;
  double best = 0;  // the greatest share of a peer
};

std::vector<SmallShare> small_shares(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  std::vector<SmallShare> found;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const double own = topo::share_of(decision.plan, gpu);
    if (own == 0) continue;  // a far GPU, which is a finding of its own
    double best = own;
    for (size_t other : peers_of(machine, gpu)) {
      best = std::max(best, topo::share_of(decision.plan, other));
    }
    if (own >= best - topo::kShareRounding) continue;
    auto same = std::find_if(found.begin(), found.end(), [&](const SmallShare& one) {
      return is_same_gpu_model(machine.gpus[one.gpus[0]], machine.gpus[gpu]) &&
             std::abs(topo::share_of(decision.plan, one.gpus[0]) - own) < topo::kShareRounding;
    });
    if (same == found.end()) same = found.insert(found.end(), SmallShare{{}, best});
    same->gpus.push_back(gpu);
  }
  return found;
}

// The socket of a device, or its NUMA node where the socket is unknown.
std::pair<int, int> socket_of(const Machine& machine, const Attachment& at) {
  if (at.numa < 0) return {-1, -1};
  const int package = machine.numa_nodes[static_cast<size_t>(at.numa)].package;
  return package >= 0 ? std::pair{package, -1} : std::pair{-1, at.numa};
}

// Whether all of the GPUs are below switches, or on sockets where they are below none, of fewer
// GPUs than others.
bool have_lost_neighbours(const RailDecision& decision, const std::vector<size_t>& gpus) {
  const Machine& machine = decision.machine;
  const auto place_of = [&](size_t gpu) {
    const topology::Attachment& at = machine.gpus[gpu].at;
    const int top = top_switch(machine, at);
    return std::pair{top, top < 0 ? socket_of(machine, at) : std::pair{-1, -1}};
  };
  std::map<std::pair<int, std::pair<int, int>>, size_t> neighbours;
  size_t most = 0;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    most = std::max(most, ++neighbours[place_of(gpu)]);
  }
  return std::all_of(gpus.begin(), gpus.end(),
                     [&](size_t gpu) { return neighbours[place_of(gpu)] < most; });
}

void check_equal_shares(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  const std::set<size_t> lacking = gpus_of_lacking_groups(decision);
  for (const SmallShare& small : small_shares(decision)) {
    const std::vector<size_t> all = peers_of(machine, small.gpus[0]);
    const bool lacks = std::any_of(small.gpus.begin(), small.gpus.end(),
                                   [&](size_t gpu) { return lacking.count(gpu) > 0; });
    if (!lacks && !should_be_even(all.size(), rails_of(decision, all))) continue;
    std::vector<size_t> peers;
    for (size_t gpu : all) {
      if (topo::share_of(decision.plan, gpu) > small.best - topo::kShareRounding)
        peers.push_back(gpu);
    }
    const std::string own = share_text(topo::share_of(decision.plan, small.gpus[0]));
    const std::string best = share_text(small.best);
    // Whose neighbour is missing has the greater share.
    const bool is_rest = small.gpus.size() > peers.size() && have_lost_neighbours(decision, peers);
    found->push_back({FindingKind::kRailShare, Severity::kWarning,
                      short_list(gpu_labels(is_rest ? peers : small.gpus)),
                      fmt::format("{} for each, where {} {} {}", is_rest ? best : own,
                                  short_list(gpu_labels(is_rest ? small.gpus : peers)),
                                  (is_rest ? small.gpus : peers).size() == 1 ? "has" : "have",
                                  is_rest ? own : best),
                      kCompare});
  }
}

// Whether the GPUs are on sockets that have no rail at all.
bool are_on_sockets_without_rails(const RailDecision& decision, const std::vector<size_t>& gpus) {
  const Machine& machine = decision.machine;
  std::set<std::pair<int, int>> with_rails;
  for (const Rail& rail : decision.plan.rails) {
    with_rails.insert(socket_of(machine, hca_of(machine, rail.port).at));
  }
  return std::none_of(gpus.begin(), gpus.end(), [&](size_t gpu) {
    return with_rails.count(socket_of(machine, machine.gpus[gpu].at)) > 0;
  });
}

// Returns the GPUs that have to go through a CPU to their rail, where peers need not. That half of
// the GPUs or more are far is the design with fewer rails than places for them, or with all HCAs on
// one socket.
std::vector<size_t> far_gpus(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  auto is_near = [&](size_t gpu) { return decision.plan.gpus[gpu].path <= PathClass::kPxb; };
  std::vector<size_t> far;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const std::vector<size_t> peers = peers_of(machine, gpu);
    if (!is_near(gpu) && std::any_of(peers.begin(), peers.end(), is_near)) far.push_back(gpu);
  }
  const bool is_few = 2 * far.size() < machine.gpus.size();
  const bool has_rails_for_all = decision.plan.rails.size() >= gpu_groups(decision).size();
  const bool by_design =
      !is_few && (!has_rails_for_all || are_on_sockets_without_rails(decision, far));
  return by_design ? std::vector<size_t>{} : far;
}

void add_far_gpus(const RailDecision& decision, const std::vector<size_t>& far, Findings* found) {
  std::vector<size_t> near;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (decision.plan.gpus[gpu].path <= PathClass::kPxb) near.push_back(gpu);
  }
  found->push_back({FindingKind::kRailShare, Severity::kWarning, short_list(gpu_labels(far)),
                    fmt::format("no HCA is below the same PCIe switch, where {} {} one",
                                short_list(gpu_labels(near)), near.size() == 1 ? "has" : "have"),
                    kCompare});
}

// Returns the decision as it would be with all ports up that should be: what a port that is down
// does to the shares is no fault of its own. Returns nothing where a map gives the rails.
std::optional<RailDecision> with_ports_up(const Host& host) {
  RailDecision decision = decision_of(host);
  bool any = false;
  for (Rail& rail : decision.plan.rails) {
    if (rail.usable || is_unused_second_port(decision.machine, rail.port)) continue;
    rail.usable = any = true;
  }
  if (!any) return decision;
  if (host.inspection->settings.count(topo::kRailMapVariable) > 0) return std::nullopt;
  for (topology::GpuRails& one : decision.plan.gpus) one.rails.clear();
  topology::assign_rails(decision.machine, decision.paths, &decision.plan);
  topology::set_own_paths(decision.paths, &decision.plan);
  return decision;
}

}  // namespace

void judge_rail_shares(const Host& host, Findings* found) {
  if (host.inspection->unrestricted.has_value()) {
    // What follows from the user's choice of ports and rails is no fault of the machine.
    const bool has_rails = !decision_of(host).plan.rails.empty();
    const topo::Restriction lost =
        topo::restriction_of(decision_of(host), *host.inspection->unrestricted);
    found->push_back({FindingKind::kRestriction, has_rails ? Severity::kWarning : Severity::kError,
                      short_list(gpu_labels(lost.gpus)), topo::restriction_text(*host.inspection),
                      "unset or correct it"});
    return;
  }
  const std::optional<RailDecision> up = with_ports_up(host);
  if (!up.has_value()) return;
  RailDecision decision = *up;
  auto& gpus = decision.plan.gpus;
  // Another check names GPUs without a rail.
  if (std::any_of(gpus.begin(), gpus.end(),
                  [](const topology::GpuRails& one) { return one.rails.empty(); })) {
    return;
  }
  const bool is_flat = topology::is_flat(decision);
  const std::vector<size_t> far = far_gpus(decision);
  if (!far.empty()) add_far_gpus(decision, far, found);
  // Far GPUs have shares of the rails of others, whose shares would be even without them.
  for (size_t gpu : far) gpus[gpu].rails.clear();
  // Where no GPU is near any HCA in particular, rails are dealt out, and need not come out even.
  if (!is_flat) check_equal_shares(decision, found);
}

}  // namespace gdr::tools::doctor

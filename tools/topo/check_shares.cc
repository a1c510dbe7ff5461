// Shares of rails: whether GPUs of one kind are equally well connected to the network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "tools/topo/checks.h"
#include "tools/topo/gpu_groups.h"
#include "tools/topo/restriction.h"
#include "topology/rail_assignment.h"

namespace gdr::tools::topo {
namespace {

// Returns "1/4 of a rail", "1 rail", "1.5 rails".
std::string share_text(double share) {
  const double parts = share > 0 ? 1 / share : 0;
  if (share < 1 && std::abs(parts - std::round(parts)) < kShareRounding) {
    return fmt::format("1/{:.0f} of a rail", parts);
  }
  return fmt::format("{:.3g} {}", share, std::abs(share - 1) < kShareRounding ? "rail" : "rails");
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
    const double own = share_of(decision.plan, gpu);
    double best = own;
    for (size_t other : peers_of(machine, gpu)) {
      best = std::max(best, share_of(decision.plan, other));
    }
    if (own >= best - kShareRounding) continue;
    auto same = std::find_if(found.begin(), found.end(), [&](const SmallShare& one) {
      return is_same_gpu_model(machine.gpus[one.gpus[0]], machine.gpus[gpu]) &&
             std::abs(share_of(decision.plan, one.gpus[0]) - own) < kShareRounding;
    });
    if (same == found.end()) same = found.insert(found.end(), SmallShare{{}, best});
    same->gpus.push_back(gpu);
  }
  return found;
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
      if (share_of(decision.plan, gpu) > small.best - kShareRounding) peers.push_back(gpu);
    }
    found->push_back({FindingKind::kRailShare, Severity::kWarning,
                      short_list(gpu_labels(small.gpus)),
                      fmt::format("{} for each, where {} {} {}",
                                  share_text(share_of(decision.plan, small.gpus[0])),
                                  short_list(gpu_labels(peers)), peers.size() == 1 ? "has" : "have",
                                  share_text(small.best)),
                      kCompare});
  }
}

// The socket of a device, or its NUMA node where the socket is unknown.
std::pair<int, int> socket_of(const Machine& machine, const Attachment& at) {
  if (at.numa < 0) return {-1, -1};
  const int package = machine.numa_nodes[static_cast<size_t>(at.numa)].package;
  return package >= 0 ? std::pair{package, -1} : std::pair{-1, at.numa};
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

// GPUs that have to go through a CPU to their rail, where peers need not. That half of the GPUs or
// more are far is the design with fewer rails than places for them, or with all HCAs on one socket.
void check_equal_distances(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  auto is_near = [&](size_t gpu) { return decision.plan.gpus[gpu].path <= PathClass::kPxb; };
  std::vector<size_t> near, far;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const std::vector<size_t> peers = peers_of(machine, gpu);
    if (is_near(gpu)) near.push_back(gpu);
    if (is_near(gpu) || std::none_of(peers.begin(), peers.end(), is_near)) continue;
    far.push_back(gpu);
  }
  const bool is_few = 2 * far.size() < machine.gpus.size();
  const bool has_rails_for_all = decision.plan.rails.size() >= gpu_groups(decision).size();
  const bool by_design =
      !is_few && (!has_rails_for_all || are_on_sockets_without_rails(decision, far));
  if (far.empty() || by_design) return;
  found->push_back({FindingKind::kRailShare, Severity::kWarning, short_list(gpu_labels(far)),
                    fmt::format("no HCA is below the same PCIe switch, where {} {} one",
                                short_list(gpu_labels(near)), near.size() == 1 ? "has" : "have"),
                    kCompare});
}

// Returns the decision as it would be with all ports up that should be: what a port that is down
// does to the shares is no fault of its own. Returns nothing where a map gives the rails.
std::optional<RailDecision> with_ports_up(const CheckInput& input) {
  RailDecision decision = input.decision();
  bool any = false;
  for (Rail& rail : decision.plan.rails) {
    if (rail.usable || is_unused_second_port(decision.machine, rail.port)) continue;
    rail.usable = any = true;
  }
  if (!any) return decision;
  if (input.inspection.settings.count(kRailMapVariable) > 0) return std::nullopt;
  for (GpuRails& one : decision.plan.gpus) one.rails.clear();
  topology::assign_rails(decision.machine, decision.paths, &decision.plan);
  topology::set_own_paths(decision.paths, &decision.plan);
  return decision;
}

// What the user's choice of ports and rails costs.
void check_restriction(const CheckInput& input, Findings* found) {
  const Restriction lost = restriction_of(input.decision(), *input.inspection.unrestricted);
  const bool has_rails = !input.decision().plan.rails.empty();
  std::string text = input.inspection.restricted_by;
  if (!has_rails) {
    text += " leaves no rail at all";
  } else if (lost.ports.empty()) {
    text += " gives rails that are farther away, or shared by more GPUs";
  } else {
    text += " leaves out " + short_list(lost.ports) +
            ", so that rails are farther away, or shared by more GPUs";
  }
  found->push_back({FindingKind::kRestriction, has_rails ? Severity::kWarning : Severity::kError,
                    short_list(gpu_labels(lost.gpus)), std::move(text), "unset or correct it"});
}

}  // namespace

void check_shares(const CheckInput& input, Findings* found) {
  if (input.inspection.unrestricted.has_value()) {
    check_restriction(input, found);
    return;  // what follows from it is no fault of the machine
  }
  const std::optional<RailDecision> up = with_ports_up(input);
  if (!up.has_value()) return;
  const RailDecision& decision = *up;
  const auto& gpus = decision.plan.gpus;
  // Another check names GPUs without a rail.
  if (std::any_of(gpus.begin(), gpus.end(),
                  [](const GpuRails& one) { return one.rails.empty(); })) {
    return;
  }
  // Where no GPU is near any HCA in particular, rails are dealt out, and need not come out even.
  if (!topology::is_flat(decision)) check_equal_shares(decision, found);
  check_equal_distances(decision, found);
}

}  // namespace gdr::tools::topo

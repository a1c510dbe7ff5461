// Shares of rails: whether GPUs of one kind are equally well connected to the network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/topo/checks.h"
#include "tools/topo/restriction.h"

namespace gdr::tools::topo {
namespace {

constexpr double kRounding = 1e-6;  // shares are sums of fractions

std::string gpu_label(size_t gpu) { return "GPU" + std::to_string(gpu); }

// Returns "1/4 of a rail", "1 rail", "1.5 rails".
std::string share_text(double share) {
  const double parts = share > 0 ? 1 / share : 0;
  if (share < 1 && std::abs(parts - std::round(parts)) < kRounding) {
    return fmt::format("1/{:.0f} of a rail", parts);
  }
  return fmt::format("{:.3g} {}", share, std::abs(share - 1) < kRounding ? "rail" : "rails");
}

bool is_peer(const Machine& machine, size_t a, size_t b) {
  return machine.gpus[a].ids == machine.gpus[b].ids &&
         machine.gpus[a].model == machine.gpus[b].model;
}

// Names of the GPUs for which matches(gpu) is true.
template <class Matches>
std::vector<std::string> gpus_that(const Machine& machine, Matches&& matches) {
  std::vector<std::string> names;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (matches(gpu)) names.push_back(gpu_label(gpu));
  }
  return names;
}

constexpr char kCompare[] =
    "look for an HCA or a GPU that is missing or in the wrong slot (lspci -tv); nccl-gdr topo "
    "--expect compares with a machine that works";

// Whether numbers of rails and GPUs come out even: as many rails for each GPU, or the reverse.
bool is_even(size_t gpus, size_t rails) {
  return gpus > 0 && rails > 0 && (rails % gpus == 0 || gpus % rails == 0);
}

// Whether uneven shares are a fault: an even division is possible, or it would be with one more
// HCA, so that each GPU has one, or with one more GPU than an odd number. Else it is the design.
bool should_be_even(size_t gpus, size_t rails) {
  const bool lacks_hca = (rails + 1) % gpus == 0;
  const bool lacks_gpu = gpus % 2 == 1 && is_even(gpus + 1, rails);
  return is_even(gpus, rails) || lacks_hca || lacks_gpu;
}

std::vector<size_t> peers_of(const Machine& machine, size_t gpu) {
  std::vector<size_t> peers;
  for (size_t other = 0; other < machine.gpus.size(); ++other) {
    if (is_peer(machine, gpu, other)) peers.push_back(other);
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
    if (own >= best - kRounding) continue;
    auto same = std::find_if(found.begin(), found.end(), [&](const SmallShare& one) {
      return is_peer(machine, one.gpus[0], gpu) &&
             std::abs(share_of(decision.plan, one.gpus[0]) - own) < kRounding;
    });
    if (same == found.end()) same = found.insert(found.end(), SmallShare{{}, best});
    same->gpus.push_back(gpu);
  }
  return found;
}

void check_equal_shares(const RailDecision& decision, CheckReport* report) {
  const Machine& machine = decision.machine;
  for (const SmallShare& small : small_shares(decision)) {
    const std::vector<size_t> all = peers_of(machine, small.gpus[0]);
    std::vector<std::string> names, peers;
    for (size_t gpu : small.gpus) names.push_back(gpu_label(gpu));
    for (size_t gpu : all) {
      if (share_of(decision.plan, gpu) > small.best - kRounding) peers.push_back(gpu_label(gpu));
    }
    const size_t rails = rails_of(decision, all);
    const std::string text = fmt::format(
        "{} for each, where {} {} {}", share_text(share_of(decision.plan, small.gpus[0])),
        short_list(peers), peers.size() == 1 ? "has" : "have", share_text(small.best));
    if (should_be_even(all.size(), rails)) {
      add_fault(report, Check::kRailShare, short_list(names), text, kCompare);
    } else {
      report->notes.push_back(fmt::format("{}: {}, since {} rails for {} GPUs do not come out even",
                                          short_list(names), text, rails, all.size()));
    }
  }
}

// Returns the uppermost switch above the GPU, an index in Machine::switches; -1: there is none.
int top_switch(const Machine& machine, const Gpu& gpu) {
  int top = gpu.at.parent;
  while (top >= 0 && machine.switches[static_cast<size_t>(top)].at.parent >= 0) {
    top = machine.switches[static_cast<size_t>(top)].at.parent;
  }
  return top;
}

// The number of groups of GPUs that share PCIe switches; a GPU below none is one.
size_t groups_of_gpus(const Machine& machine) {
  std::set<int> switches;
  size_t groups = 0;
  for (const Gpu& gpu : machine.gpus) {
    const int top = top_switch(machine, gpu);
    if (top < 0 || switches.insert(top).second) ++groups;
  }
  return groups;
}

// GPUs that have to go through a CPU to their rail, where peers need not. With fewer rails than
// places for them, that half of the GPUs or more are far is the design.
void check_equal_distances(const RailDecision& decision, CheckReport* report) {
  const Machine& machine = decision.machine;
  auto is_near = [&](size_t gpu) { return decision.plan.gpus[gpu].path <= PathClass::kPxb; };
  const auto far = gpus_that(machine, [&](size_t gpu) {
    if (is_near(gpu)) return false;
    for (size_t other = 0; other < machine.gpus.size(); ++other) {
      if (is_peer(machine, gpu, other) && is_near(other)) return true;
    }
    return false;
  });
  if (far.empty()) return;
  const std::string text = "no HCA is below the same PCIe switch, where " +
                           short_list(gpus_that(machine, is_near)) + " have one";
  const bool is_few = 2 * far.size() < machine.gpus.size();
  if (is_few || decision.plan.rails.size() >= groups_of_gpus(machine)) {
    add_fault(report, Check::kRailShare, short_list(far), text, kCompare);
  } else {
    report->notes.push_back(short_list(far) + ": " + text);
  }
}

// Whether rails are down that should not be. Another check names these.
bool any_rail_down(const RailDecision& decision) {
  return std::any_of(decision.plan.rails.begin(), decision.plan.rails.end(), [&](const Rail& rail) {
    return !rail.usable && !is_unused_second_port(decision.machine, rail.port);
  });
}

}  // namespace

void check_shares(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  if (input.inspection.unrestricted.has_value()) {
    const Restriction lost = restriction_of(decision, *input.inspection.unrestricted);
    std::vector<std::string> names;
    for (size_t gpu : lost.gpus) names.push_back(gpu_label(gpu));
    const std::string& setting = input.inspection.restricted_by;
    add_fault(report, Check::kSetting, short_list(names),
              lost.ports.empty()
                  ? setting + " gives rails that are farther away, or shared by more GPUs"
                  : setting + " leaves out " + short_list(lost.ports) +
                        ", so that rails are farther away, or shared by more GPUs",
              "unset or correct it");
    return;  // what follows from it is no fault of the machine
  }
  const auto& gpus = decision.plan.gpus;
  // Other checks name GPUs without a rail, and rails that are down.
  const bool any_without =
      std::any_of(gpus.begin(), gpus.end(), [](const GpuRails& one) { return one.rails.empty(); });
  if (any_without || any_rail_down(decision)) return;
  // Where no GPU is near any HCA in particular, rails are dealt out, and need not come out even.
  if (!topology::is_flat(decision)) check_equal_shares(decision, report);
  check_equal_distances(decision, report);
}

}  // namespace gdr::tools::topo

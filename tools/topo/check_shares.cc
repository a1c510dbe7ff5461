// Shares of rails: whether GPUs of one kind are equally well connected to the network.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

// GPUs whose share of rails is smaller than that of a peer; those of one share are one fault.
void check_equal_shares(const RailDecision& decision, CheckReport* report) {
  const Machine& machine = decision.machine;
  std::map<std::string, std::vector<size_t>> small;  // by what they have
  std::map<std::string, double> best_of;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    const double own = share_of(decision.plan, gpu);
    double best = own;
    for (size_t other = 0; other < machine.gpus.size(); ++other) {
      if (is_peer(machine, gpu, other)) best = std::max(best, share_of(decision.plan, other));
    }
    if (own >= best - kRounding) continue;
    small[share_text(own)].push_back(gpu);
    best_of[share_text(own)] = best;
  }
  for (const auto& [share, gpus] : small) {
    const double best = best_of[share];
    std::vector<std::string> names;
    for (size_t gpu : gpus) names.push_back(gpu_label(gpu));
    const auto peers = gpus_that(machine, [&](size_t other) {
      return is_peer(machine, gpus[0], other) && share_of(decision.plan, other) > best - kRounding;
    });
    add_fault(report, Check::kRailShare, short_list(names),
              fmt::format("{} for each, where {} {} {}", share, short_list(peers),
                          peers.size() == 1 ? "has" : "have", share_text(best)),
              kCompare);
  }
}

// GPUs that have to go through a CPU to their rail, where peers need not.
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
  add_fault(report, Check::kRailShare, short_list(far),
            "no HCA is below the same PCIe switch, where " +
                short_list(gpus_that(machine, is_near)) + " have one",
            kCompare);
}

}  // namespace

void check_shares(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  if (input.inspection.unrestricted.has_value()) {
    const Restriction lost = restriction_of(decision, *input.inspection.unrestricted);
    std::vector<std::string> names;
    for (size_t gpu : lost.gpus) names.push_back(gpu_label(gpu));
    add_fault(report, Check::kSetting, short_list(names),
              lost.ports.empty()
                  ? "the rail map gives rails that are farther away, or shared by more GPUs"
                  : "NCCL_IB_HCA or the rail map leaves out " + short_list(lost.ports) +
                        ", so that rails are farther away, or shared by more GPUs",
              "unset NCCL_IB_HCA and GDR_NCCL_RAIL_MAP, or correct them");
    return;  // what follows from it is no fault of the machine
  }
  const auto& gpus = decision.plan.gpus;
  const auto& rails = decision.plan.rails;
  // Other checks name GPUs without a rail, and rails that are down.
  if (std::any_of(gpus.begin(), gpus.end(),
                  [](const GpuRails& one) { return one.rails.empty(); }) ||
      std::any_of(rails.begin(), rails.end(), [](const Rail& rail) { return !rail.usable; })) {
    return;
  }
  // Where no GPU is near any HCA in particular, rails are dealt out, and need not come out even.
  if (!topology::is_flat(decision)) check_equal_shares(decision, report);
  check_equal_distances(decision, report);
}

}  // namespace gdr::tools::topo

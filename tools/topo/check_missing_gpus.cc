// GPUs that the machine does not show, though HCAs for them are there.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tools/topo/checks.h"
#include "topology/physical_gpus.h"

namespace gdr::tools::topo {
namespace {

// The number of rails of each card, where every card has the same number of its own; else 0.
size_t rails_of_each_card(const RailDecision& decision, const std::vector<size_t>& cards) {
  std::vector<int> users(decision.plan.rails.size(), 0);
  const size_t each = decision.plan.rails.size() / cards.size();
  for (size_t gpu : cards) {
    const std::vector<int>& own = decision.plan.gpus[gpu].rails;
    if (own.size() != each) return 0;
    for (int rail : own) ++users[static_cast<size_t>(rail)];
  }
  const bool shared = std::any_of(users.begin(), users.end(), [](int count) { return count != 1; });
  return shared ? 0 : each;
}

// Whether no GPU has the port's HCA as near as its own rail.
bool is_nearest_to_none(const RailDecision& decision, PortRef port) {
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const PathClass path = decision.paths.gpu_hca(gpu, static_cast<size_t>(port.hca));
    if (path <= decision.plan.gpus[gpu].path) return false;
  }
  return true;
}

// Returns the excluded ports that look like rails, but for a GPU that is near: those of the model,
// the class and the speed of a rail.
std::vector<std::string> orphans(const RailDecision& decision) {
  const Machine& machine = decision.machine;
  std::vector<std::string> ports;
  for (const ExcludedPort& one : decision.plan.excluded) {
    const Hca& hca = hca_of(machine, one.port);
    const Port& port = port_of(machine, one.port);
    if (hca.physical_function.has_value() || !is_nearest_to_none(decision, one.port)) continue;
    const bool is_like_rail =
        std::any_of(decision.plan.rails.begin(), decision.plan.rails.end(), [&](const Rail& rail) {
          const Hca& other = hca_of(machine, rail.port);
          return other.ids == hca.ids && other.class_code == hca.class_code &&
                 port_of(machine, rail.port).speed_mbps == port.speed_mbps;
        });
    if (is_like_rail) ports.push_back(port_label(machine, one.port));
  }
  return ports;
}

}  // namespace

// Servers have a power of two of GPUs, but for few. Where there are fewer, each with its own rails,
// and spare ports of the rails' model for the others, GPUs are missing. An HCA of that model alone,
// as for a storage network, shows nothing.
void check_missing_gpus(const CheckInput& input, Findings* found) {
  const RailDecision& decision = input.decision();
  std::vector<size_t> cards;
  for (const std::vector<size_t>& one : topology::physical_gpus(decision.machine)) {
    cards.push_back(one.front());
  }
  const size_t missing = std::bit_ceil(cards.size()) - cards.size();
  const bool has_rails = !cards.empty() && !decision.plan.rails.empty();
  if (input.inspection.unrestricted.has_value() || !has_rails || missing == 0) return;
  const size_t each = rails_of_each_card(decision, cards);
  const std::vector<std::string> spare = orphans(decision);
  if (each == 0 || spare.size() < missing * each) return;
  found->push_back(
      {FindingKind::kRailShare, Severity::kWarning, short_list(spare),
       fmt::format(
           "like the rails, and near no GPU, where each of the {} GPUs has {} of its own: a "
           "GPU may be missing",
           cards.size(), each == 1 ? "a rail" : fmt::format("{} rails", each)),
       "look at lspci -tv, nvidia-smi -L and the kernel's log (Xid 79) for a GPU that is lost; "
       "nccl-gdr doctor --expect compares with a machine that works"});
}

}  // namespace gdr::tools::topo

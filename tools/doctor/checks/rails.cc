// Which HCA port each GPU uses: whether there is one, whether GPUs are served alike, and whether
// NCCL uses them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/rdma_devices.h"
#include "tools/prediction/rail_agreement.h"
#include "topology/physical_gpus.h"

namespace gdr::tools::doctor {
namespace {

// What to do where no setting makes NCCL use the GPU's own rail.
std::string fix_of_choice(const Machine& machine, const topology::Disagreement& one) {
  return "no setting is known that helps: look at the slot and the port of " +
         port_label(machine, one.rails[0]) + ", or move its card to a slot nearer " +
         gpu_label(one.gpu) + " (lspci -tv)";
}

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
  for (const topology::ExcludedPort& one : decision.plan.excluded) {
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

// "GPU0 mlx5_0:1, GPU1 mlx5_1:1".
std::string rails_of_gpus(const RailDecision& decision) {
  std::string text;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    text += (text.empty() ? "" : ", ") + topo::gpu_label(gpu);
    for (const topology::Rail* rail : decision.plan.rails_of(gpu)) {
      text += " " + topology::port_label(decision.machine, rail->port);
    }
  }
  return text;
}

// Names the HCAs where the plugin can use none of them. Which plugin NCCL loads is unknown here.
bool add_unsupported(const Host& host, Findings* found) {
  std::map<std::string, std::vector<std::string>> ports;  // by the reason
  for (const discovery::SkippedPort& one : host.inspection->not_offered) {
    if (one.kind == FindingKind::kHcaUnsupported) ports[one.reason].push_back(one.port);
  }
  for (const auto& [reason, labels] : ports) {
    const TextAndFix parts = split_fix(reason);
    found->push_back({FindingKind::kHcaUnsupported, Severity::kWarning, short_list(labels),
                      "it " + parts.text + ". This plugin does not use it", parts.fix});
  }
  return !ports.empty();
}

// Where the list excludes every HCA that the machine shows: those that the plugin cannot use
// without it are in no other finding.
bool add_excluded(const Host& host, Findings* found) {
  std::vector<std::string> ports;
  for (const discovery::SkippedPort& one : host.inspection->not_offered) {
    if (one.kind == FindingKind::kHcaExcluded) ports.push_back(one.port);
  }
  if (ports.empty()) return false;
  found->push_back({FindingKind::kNoHca, Severity::kError, short_list(ports),
                    topo::setting_text(host.inspection->settings, topo::kHcaVariable) +
                        " excludes every HCA of the machine, so that no GPU has a rail",
                    "name HCAs of this machine there"});
  return true;
}

void judge_usable_rails(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  const Machine& machine = decision.machine;
  if (machine.gpus.empty() || has_absent_gpus(host)) {
    // NVIDIA's driver loads only where it finds a GPU, which has been lost since then.
    const bool had_gpus = host.file.empty() && nvidia_module(host).is_loaded();
    found->push_back(
        {FindingKind::kNoGpu, had_gpus ? Severity::kError : Severity::kWarning, "",
         std::string("the machine shows no GPU, so that rails are not checked") +
             (had_gpus ? "; NVIDIA's driver is loaded" : ""),
         "look at lspci and nvidia-smi -L: the GPU's driver, or the container's devices"});
  }
  if (machine.hcas.empty() && !host.inspection->unrestricted.has_value()) {
    if (add_unsupported(host, found) || add_excluded(host, found)) return;
    found->push_back({FindingKind::kNoHca, Severity::kError, "",
                      "the machine shows no HCA, so that no GPU has a rail",
                      "look at lspci and ibstat: the HCA's driver, or the container's devices"});
  }
  if (machine.gpus.empty() || machine.hcas.empty()) return;
  std::vector<size_t> without;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (decision.plan.first_rail_of(gpu) == nullptr) without.push_back(gpu);
  }
  if (without.empty()) return;
  found->push_back({FindingKind::kNoRail, Severity::kError, short_list(gpu_labels(without)),
                    "no rail: no port of an HCA is usable",
                    "look at ibstat, the driver of the HCAs, and NCCL_IB_HCA"});
}

}  // namespace

void judge_rails(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  if (!decision.prediction.failure().empty()) {
    found->push_back({FindingKind::kNcclFails, Severity::kWarning, "",
                      "NCCL " + decision.prediction.settings().release.to_string() +
                          " fails on this machine: " + decision.prediction.failure(),
                      "use another release, or give NCCL_TOPO_FILE the name of a corrected file"});
  }
  judge_usable_rails(host, found);
}

// GPUs that NCCL serves worse are named each, but for those of network interfaces without RDMA.
void judge_nccl_choices(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  const Findings& others = decision.findings;
  const bool lacks = lacks_devices(host, *found);
  const bool has_cause =
      lacks || !found->empty() || std::any_of(others.begin(), others.end(), is_of_nccl_file);
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if (one.as_good || !topo::has_rdma_rail(decision.machine, one)) continue;
    std::string fix = lacks ? "" : one.fix;
    if (fix.empty()) {
      fix = has_cause ? "no setting; first what else nccl-gdr doctor finds"
                      : fix_of_choice(decision.machine, one);
    }
    found->push_back({FindingKind::kNcclChoice, Severity::kWarning, "",
                      to_string(decision.machine, one), std::move(fix)});
  }
}

// Servers have a power of two of GPUs, but for few. Where there are fewer, each with its own rails,
// and spare ports of the rails' model for the others, GPUs are missing. An HCA of that model alone,
// as for a storage network, shows nothing.
void judge_missing_gpus(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  std::vector<size_t> cards;
  for (const std::vector<size_t>& one : topology::physical_gpus(decision.machine)) {
    cards.push_back(one.front());
  }
  const size_t missing = std::bit_ceil(cards.size()) - cards.size();
  const bool has_rails = !cards.empty() && !decision.plan.rails.empty();
  if (host.inspection->unrestricted.has_value() || !has_rails || missing == 0) return;
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

Observations run_rails(const Host& host) {
  if (auto unknown_file = left_out(host, "NCCL_TOPO_FILE")) return {*unknown_file};
  const RailDecision& decision = decision_of(host);
  if (decision.machine.gpus.empty())
    return {nothing_on(host, "there is no GPU that could have a rail")};
  Observations seen = findings_of(host, check_named("rails").kinds);
  if (!seen.empty()) return seen;
  if (decision.machine.hcas.empty())
    return {nothing_on(host, "there is no HCA that could be a rail")};
  return {ok("", fmt::format("rails: {}; GPUs: {}; {}", decision.plan.rails.size(),
                             decision.machine.gpus.size(), rails_of_gpus(decision)))};
}

}  // namespace gdr::tools::doctor

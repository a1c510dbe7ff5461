// Which HCA port each GPU uses: whether there is one, whether GPUs are served alike, and whether
// NCCL uses them.
#include <fmt/format.h>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

// "GPU0 mlx5_0:1, GPU1 mlx5_1:1".
std::string rails_of_gpus(const topo::RailDecision& decision) {
  std::string text;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    text += (text.empty() ? "" : ", ") + topo::gpu_label(gpu);
    for (const topology::Rail* rail : decision.plan.rails_of(gpu)) {
      text += " " + topology::port_label(decision.machine, rail->port);
    }
  }
  return text;
}

Observations run_rails(const Host& host) {
  if (!host.inspection.has_value()) {
    return {unknown("", "the topology is unknown: " + topo::clean_text(host.inspection_error),
                    "mount /sys")};
  }
  const topo::RailDecision& decision = host.inspection->decision;
  if (decision.machine.gpus.empty())
    return {nothing_on(host, "there is no GPU that could have a rail")};
  Observations seen = findings_of(host, rails().kinds);
  if (!seen.empty()) return seen;
  if (decision.machine.hcas.empty())
    return {nothing_on(host, "there is no HCA that could be a rail")};
  return {ok("", fmt::format("rails: {}; GPUs: {}; {}", decision.plan.rails.size(),
                             decision.machine.gpus.size(), rails_of_gpus(decision)))};
}

}  // namespace

Check rails() {
  return {.name = "rails",
          .looks_at = "which HCA port each GPU uses, and whether NCCL agrees",
          .why =
              "A GPU without a rail uses no RDMA; one with a smaller share, or whose data NCCL "
              "sends elsewhere, holds up all others of a collective.",
          .cost = Cost::kStops,
          .kinds = {FindingKind::kRailShare, FindingKind::kNoRail, FindingKind::kNcclFails,
                    FindingKind::kNcclChoice, FindingKind::kRestriction, FindingKind::kRailMap,
                    FindingKind::kRailMapIgnored, FindingKind::kTopologyFile,
                    FindingKind::kTopologyUnknown, FindingKind::kSeveralHosts},
          .of_silent_file = silent_file::of_rails,
          .run = run_rails};
}

}  // namespace gdr::tools::doctor

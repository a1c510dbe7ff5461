// Rails: whether each GPU has one, reaches it by GPUDirect RDMA, and NCCL uses it.
#include <algorithm>
#include <map>
#include <utility>

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/checks.h"
#include "tools/topo/rdma_devices.h"
#include "tools/topo/reach.h"
#include "tools/topo/reach_remedy.h"

namespace gdr::tools::topo {
namespace {

void check_usable(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  const Machine& machine = decision.machine;
  if (machine.gpus.empty()) {
    add_fault(report, FindingKind::kNoGpu, "",
              "the machine shows no GPU, so that rails are not checked",
              "look at lspci and nvidia-smi -L: the GPU's driver, or the container's devices");
  }
  if (machine.hcas.empty() && !input.inspection.unrestricted.has_value()) {
    add_fault(report, FindingKind::kNoHca, "",
              "the machine shows no HCA, so that no GPU has a rail",
              "look at lspci and ibstat: the HCA's driver, or the container's devices");
  }
  if (machine.gpus.empty() || machine.hcas.empty()) return;
  std::vector<size_t> without;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (decision.plan.first_rail_of(gpu) == nullptr) without.push_back(gpu);
  }
  if (without.empty()) return;
  add_fault(report, FindingKind::kNoRail, short_list(gpu_labels(without)),
            "no rail: no port of an HCA is usable",
            "look at ibstat, the driver of the HCAs, and NCCL_IB_HCA", Severity::kError);
}

// Where a GPU and its rail meet, in words.
const char* meeting_text(PathClass path) {
  switch (path) {
    case PathClass::kPhb:
      return "GPU and HCA meet only at the CPU (PHB)";
    case PathClass::kSys:
      return "GPU and HCA are on different NUMA nodes (SYS)";
    default:
      return "GPU and HCA are too far apart";
  }
}

std::string fix_of_reach(const Inspection& inspection, PathClass path,
                         const std::vector<size_t>& gpus) {
  const RailDecision& decision = inspection.decision;
  const ReachRemedy remedy = reach_remedy(decision, gpus);
  if (remedy.setting == ReachRemedy::Setting::kNone) {
    return "no setting is known that helps: move an HCA below the GPU's PCIe switch, or to a slot "
           "of its NUMA node";
  }
  if (remedy.setting == ReachRemedy::Setting::kUnsetLevel) {
    return removal_text(inspection.settings, kLevelVariable);
  }
  std::string fix = remedy.line;
  if (remedy.setting != ReachRemedy::Setting::kLevel) return fix;
  if (!remedy.advised) {
    fix = "an HCA on the GPU's NUMA node; " + remedy.line +
          " allows it as it is, mostly slower than host memory";
  } else if (path == PathClass::kPhb) {
    fix += ", and measure both: across some CPUs, host memory is faster";
  }
  if (decision.machine.switches.empty()) {
    fix += "; in a virtual machine, NCCL_TOPO_FILE with the file of its provider";
  }
  return fix;
}

// What becomes of the data of a GPU that is beyond the level to its own rail, which NCCL need not
// use.
const char* consequence_of_reach(const RailDecision& decision, size_t gpu) {
  const std::vector<size_t>& devices = decision.prediction.devices_of_gpu(gpu);
  size_t direct = 0;
  for (size_t device : devices) {
    const topology::nccl::Verdicts verdicts = decision.prediction.verdicts(gpu, device);
    direct += (verdicts.send.direct ? 1 : 0) + (verdicts.receive.direct ? 1 : 0);
  }
  if (direct == 0) return "so that all data is copied through host memory";
  if (direct == 2 * devices.size()) return "but with the HCAs that NCCL uses in its place";
  return "so that a part of the data is copied through host memory";
}

// What to do where no setting makes NCCL use the GPU's own rail.
std::string fix_of_choice(const Machine& machine, const topology::Disagreement& one) {
  return "no setting is known that helps: look at the slot and the port of " +
         port_label(machine, one.rails[0]) + ", or move its card to a slot nearer " +
         gpu_label(one.gpu) + " (lspci -tv)";
}

// GPUs that NCCL serves worse are faults each, but for those of network interfaces without RDMA;
// those that are served as well are in notes.
void check_nccl_choices(const RailDecision& decision, CheckReport* report) {
  std::vector<topology::Disagreement> different = topology::disagreements(decision);
  const bool has_cause = !report->faults.empty();
  for (const topology::Disagreement& one : different) {
    if (one.as_good || !has_rdma_rail(decision.machine, one)) continue;
    std::string fix = one.fix;
    if (fix.empty()) {
      fix = has_cause ? "no setting; first what else nccl-gdr doctor finds"
                      : fix_of_choice(decision.machine, one);
    }
    add_fault(report, FindingKind::kNcclChoice, "", to_string(decision.machine, one),
              std::move(fix));
  }
  std::erase_if(different, [](const topology::Disagreement& one) { return !one.as_good; });
  for (std::string& note : sentences(decision.machine, different)) {
    report->notes.push_back(std::move(note));
  }
}

}  // namespace

// GPUs with one reason and consequence are one fault. It is one on every machine, since NCCL says
// nothing when it does without GPUDirect RDMA.
void check_reach(const Inspection& inspection, const std::vector<size_t>& gpus_of_interest,
                 CheckReport* report) {
  const RailDecision& decision = inspection.decision;
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> gpus_by_reason;
  for (const size_t gpu : gpus_of_interest) {
    const std::optional<Verdict> verdict = out_of_reach(decision, gpu);
    if (!verdict) continue;
    gpus_by_reason[{verdict->reason, consequence_of_reach(decision, gpu)}].push_back(gpu);
  }
  for (const auto& [text, gpus] : gpus_by_reason) {
    const auto& [reason, consequence] = text;
    const PathClass path = decision.plan.gpus[gpus[0]].path;
    add_fault(report, FindingKind::kGdrReach, short_list(gpu_labels(gpus)),
              "no GPUDirect RDMA with the own rail, " + consequence + ": " + meeting_text(path) +
                  ", and " + reason,
              fix_of_reach(inspection, path, gpus));
  }
}

void check_rails(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  if (!decision.prediction.failure().empty()) {
    add_fault(report, FindingKind::kNcclFails, "",
              "NCCL " + decision.prediction.settings().release.to_string() +
                  " fails on this machine: " + decision.prediction.failure(),
              "use another release, or give NCCL_TOPO_FILE the name of a corrected file");
  }
  check_usable(input, report);
  check_shares(input, report);
  check_reach(input.inspection, all_gpus(decision.machine), report);
  check_nccl_choices(decision, report);
  for (const std::string& assumption : decision.prediction.assumptions()) {
    report->notes.push_back(assumption);
  }
}

}  // namespace gdr::tools::topo

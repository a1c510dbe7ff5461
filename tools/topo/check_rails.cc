// Rails: whether each GPU has one, reaches it by GPUDirect RDMA, and NCCL uses it.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tools/prediction/rail_agreement.h"
#include "tools/topo/checks.h"
#include "tools/topo/rdma_devices.h"
#include "tools/topo/reach.h"
#include "tools/topo/reach_remedy.h"

namespace gdr::tools::topo {
namespace {

void check_usable(const CheckInput& input, Findings* found) {
  const RailDecision& decision = input.decision();
  const Machine& machine = decision.machine;
  if (machine.gpus.empty()) {
    found->push_back(
        {FindingKind::kNoGpu, Severity::kWarning, "",
         "the machine shows no GPU, so that rails are not checked",
         "look at lspci and nvidia-smi -L: the GPU's driver, or the container's devices"});
  }
  if (machine.hcas.empty() && !input.inspection.unrestricted.has_value()) {
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

// GPUs that NCCL serves worse are named each, but for those of network interfaces without RDMA.
void check_nccl_choices(const RailDecision& decision, Findings* found) {
  const bool has_cause = !found->empty();
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if (one.as_good || !has_rdma_rail(decision.machine, one)) continue;
    std::string fix = one.fix;
    if (fix.empty()) {
      fix = has_cause ? "no setting; first what else nccl-gdr doctor finds"
                      : fix_of_choice(decision.machine, one);
    }
    found->push_back({FindingKind::kNcclChoice, Severity::kWarning, "",
                      to_string(decision.machine, one), std::move(fix)});
  }
}

// Whether a setting of the user keeps a GPU from its rail, which without it would be near enough.
// Where a rail is far away by itself NCCL leaves GPUDirect RDMA out for good reason.
bool setting_forbids_reach(const RailDecision& decision, const std::vector<size_t>& far) {
  return std::any_of(far.begin(), far.end(), [&](size_t gpu) {
    using Setting = ReachRemedy::Setting;
    const Setting setting = reach_remedy(decision, {gpu}).setting;
    return setting == Setting::kUnsetLevel || setting == Setting::kC2c;
  });
}

// The nearest rail of a GPU that is not usable, and would be nearer than the one it has; null where
// there is none.
const Rail* nearer_unusable_rail(const RailDecision& decision, size_t gpu) {
  const Rail* nearest = nullptr;
  PathClass path = decision.plan.gpus[gpu].path;
  for (const Rail& rail : decision.plan.rails) {
    const auto hca = static_cast<size_t>(rail.port.hca);
    if (rail.usable || decision.paths.gpu_hca(gpu, hca) >= path) continue;
    nearest = &rail;
    path = decision.paths.gpu_hca(gpu, hca);
  }
  return nearest;
}

std::string rail_label(const RailDecision& decision, size_t gpu) {
  return port_label(decision.machine, decision.plan.first_rail_of(gpu)->port);
}

// GPUs that are far from a rail only as long as a nearer one is down. No level is advised for them.
bool has_lost_its_rail(const RailDecision& decision, size_t gpu, Findings* found) {
  const Rail* lost = nearer_unusable_rail(decision, gpu);
  if (lost == nullptr) return false;
  const bool is_down = port_of(decision.machine, lost->port).state == Port::State::kDown;
  found->push_back(
      {FindingKind::kGdrReach, Severity::kWarning, gpu_name(decision.machine, gpu),
       "no GPUDirect RDMA: its nearest port " + port_label(decision.machine, lost->port) + " is " +
           (is_down ? "DOWN" : "not usable") + ", so that it shares " + rail_label(decision, gpu),
       "bring up that port: nccl-gdr doctor --check port-state"});
  return true;
}

// Names GPUs with one reason and consequence together, on every machine, since NCCL says nothing
// when it does without GPUDirect RDMA.
void check_reach(const Inspection& inspection, Findings* found) {
  const RailDecision& decision = inspection.decision;
  std::vector<size_t> far = gpus_out_of_reach(decision);
  std::erase_if(far, [&](size_t gpu) { return has_lost_its_rail(decision, gpu, found); });
  std::map<std::pair<std::string, std::string>, std::vector<size_t>> gpus_by_reason;
  for (const size_t gpu : far) {
    gpus_by_reason[{out_of_reach(decision, gpu)->reason, consequence_of_reach(decision, gpu)}]
        .push_back(gpu);
  }
  // A setting is the same on the whole machine.
  const Severity severity =
      setting_forbids_reach(decision, far) ? Severity::kError : Severity::kWarning;
  for (const auto& [text, gpus] : gpus_by_reason) {
    const auto& [reason, consequence] = text;
    std::set<std::string> rails;
    for (const size_t gpu : gpus) rails.insert(rail_label(decision, gpu));
    const PathClass path = decision.plan.gpus[gpus[0]].path;
    found->push_back({FindingKind::kGdrReach, severity, short_list(gpu_labels(gpus)),
                      "no GPUDirect RDMA with the own rail (" +
                          short_list({rails.begin(), rails.end()}) + "), " + consequence + ": " +
                          meeting_text(path) + ", and " + reason,
                      fix_of_reach(inspection, path, gpus)});
  }
}

}  // namespace

void check_rails(const CheckInput& input, Findings* found) {
  const RailDecision& decision = input.decision();
  if (!decision.prediction.failure().empty()) {
    found->push_back({FindingKind::kNcclFails, Severity::kWarning, "",
                      "NCCL " + decision.prediction.settings().release.to_string() +
                          " fails on this machine: " + decision.prediction.failure(),
                      "use another release, or give NCCL_TOPO_FILE the name of a corrected file"});
  }
  check_usable(input, found);
  check_shares(input, found);
  check_reach(input.inspection, found);
  check_nccl_choices(decision, found);
}

}  // namespace gdr::tools::topo

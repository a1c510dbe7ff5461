// Rails: whether each GPU has one, reaches it by GPUDirect RDMA, and NCCL uses it.
#include <algorithm>

#include "tools/topo/checks.h"
#include "topology/live/rail_agreement.h"

namespace gdr::tools::topo {
namespace {

void check_usable(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  const Machine& machine = decision.machine;
  if (machine.gpus.empty()) {
    add_fault(report, Check::kNoGpu, "", "the machine shows no GPU, so that rails are not checked",
              "look at lspci and nvidia-smi -L: the GPU's driver, or the container's devices");
  }
  if (machine.hcas.empty() && !input.inspection.unrestricted.has_value()) {
    add_fault(report, Check::kNoHca, "", "the machine shows no HCA, so that no GPU has a rail",
              "look at lspci and ibstat: the HCA's driver, or the container's devices");
  }
  if (machine.gpus.empty() || machine.hcas.empty()) return;
  std::vector<std::string> without;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (decision.plan.first_rail_of(gpu) == nullptr) without.push_back("GPU" + std::to_string(gpu));
  }
  if (without.empty()) return;
  add_fault(report, Check::kNoRail, short_list(without), "no rail: no port of an HCA is usable",
            "look at ibstat, the driver of the HCAs, and NCCL_IB_HCA");
}

// GPUs with one reason are one fault.
void check_reach(const RailDecision& decision, CheckReport* report) {
  std::map<std::string, std::vector<std::string>> gpus_by_reason;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* rail = decision.plan.first_rail_of(gpu);
    if (rail == nullptr) continue;
    const auto verdicts = verdicts_between(decision, gpu, static_cast<size_t>(rail->port.hca));
    const Verdict& verdict = verdicts.receive.direct ? verdicts.send : verdicts.receive;
    if (verdict.direct || !verdict.too_far) continue;
    gpus_by_reason[verdict.reason].push_back("GPU" + std::to_string(gpu));
  }
  for (const auto& [reason, gpus] : gpus_by_reason) {
    add_fault(report, Check::kGdrReach, short_list(gpus),
              "no GPUDirect RDMA with the own rail, through host memory: " + reason,
              "nccl-gdr topo --env prints the setting that helps, where there is one");
  }
}

// How many GPUs use each device first.
std::map<size_t, int> load_by_nccl(const RailDecision& decision) {
  std::map<size_t, int> load;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    for (size_t device : decision.prediction.devices_of_gpu(gpu)) ++load[device];
  }
  return load;
}

// Returns the device of NCCL's that is the rail; -1: the rail is not usable.
int device_of_rail(const RailDecision& decision, const Rail& rail) {
  const auto& devices = decision.prediction.devices();
  auto found = std::find(devices.begin(), devices.end(), rail.port);
  return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
}

bool is_direct(const RailDecision& decision, size_t gpu, size_t device) {
  const auto verdicts = decision.prediction.verdicts(gpu, device);
  return verdicts.receive.direct && verdicts.send.direct;
}

// Whether NCCL's device is a worse one for the GPU than its own rail.
bool is_worse(const RailDecision& decision, size_t gpu, size_t device, size_t own) {
  const auto& devices = decision.prediction.devices();
  if (!is_direct(decision, gpu, device) && is_direct(decision, gpu, own)) return true;
  const PathClass theirs = path_between(decision, gpu, static_cast<size_t>(devices[device].hca));
  return theirs > path_between(decision, gpu, static_cast<size_t>(devices[own].hca));
}

// Returns "GPU4: NCCL uses mlx5_8:1 where the rail is ...".
std::string sentence_on(const RailDecision& decision, size_t gpu) {
  for (const topology::Disagreement& one : topology::disagreements(decision)) {
    if (one.gpu == gpu) return to_string(decision.machine, one);
  }
  return "GPU" + std::to_string(gpu) + ": NCCL uses other ports than its rails";
}

}  // namespace

std::vector<NcclChoice> nccl_choices(const RailDecision& decision) {
  std::vector<NcclChoice> choices;
  if (decision.prediction.devices().empty()) return choices;
  const std::map<size_t, int> load = load_by_nccl(decision);
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const Rail* first = decision.plan.first_rail_of(gpu);
    if (first == nullptr) continue;
    NcclChoice choice{gpu, decision.prediction.devices_of_gpu(gpu), false, false};
    std::vector<int> own;
    for (const Rail* rail : decision.plan.rails_of(gpu)) {
      own.push_back(device_of_rail(decision, *rail));
    }
    for (size_t device : choice.devices) {
      if (std::find(own.begin(), own.end(), static_cast<int>(device)) != own.end()) continue;
      choice.differs = true;
      const auto mine = static_cast<size_t>(own[0]);
      const auto unused = load.find(mine);
      const bool crowded = load.at(device) > 1 && unused == load.end();
      if (crowded || is_worse(decision, gpu, device, mine)) choice.is_worse = true;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::string ports_of_devices(const RailDecision& decision, const std::vector<size_t>& devices) {
  std::vector<std::string> labels;
  for (size_t device : devices) {
    labels.push_back(port_label(decision.machine, decision.prediction.devices()[device]));
  }
  return short_list(labels);
}

std::string ports_of_rails(const RailDecision& decision, size_t gpu) {
  std::vector<std::string> labels;
  for (const Rail* rail : decision.plan.rails_of(gpu)) {
    labels.push_back(port_label(decision.machine, rail->port));
  }
  return short_list(labels);
}

void check_rails(const CheckInput& input, CheckReport* report) {
  const RailDecision& decision = input.decision();
  if (!decision.prediction.failure().empty()) {
    add_fault(report, Check::kNcclFails, "",
              "NCCL " + decision.prediction.settings().release.to_string() +
                  " fails on this machine: " + decision.prediction.failure(),
              "use another release, or give NCCL_TOPO_FILE the name of a corrected file");
  }
  check_usable(input, report);
  check_shares(input, report);
  check_reach(decision, report);
  std::vector<std::string> as_good;
  for (const NcclChoice& choice : nccl_choices(decision)) {
    if (choice.is_worse) {
      add_fault(report, Check::kNcclChoice, "", sentence_on(decision, choice.gpu),
                "nccl-gdr topo --env prints the setting that helps, where there is one");
    } else if (choice.differs) {
      as_good.push_back("GPU" + std::to_string(choice.gpu) + " " +
                        ports_of_devices(decision, choice.devices));
    }
  }
  if (!as_good.empty()) {
    report->notes.push_back("NCCL uses other ports than the rails, which are as good: " +
                            short_list(as_good));
  }
  for (const std::string& assumption : decision.prediction.assumptions()) {
    report->notes.push_back(assumption);
  }
}

}  // namespace gdr::tools::topo

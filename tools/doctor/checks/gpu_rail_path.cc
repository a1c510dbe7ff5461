// How far each GPU is from its own rail, and whether NCCL uses GPUDirect RDMA between them.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/topo/checks.h"
#include "tools/topo/reach.h"
#include "tools/topo/reach_remedy.h"
#include "tools/topo/short_list.h"

namespace gdr::tools::doctor {
namespace {

using topo::RailDecision;

// Whether a setting of the user keeps a GPU from its rail, which without it would be near enough. A
// rail that is far away by itself is none: NCCL leaves GPUDirect RDMA out there for good reason.
bool setting_forbids_reach(const RailDecision& decision, const std::vector<size_t>& far) {
  return std::any_of(far.begin(), far.end(), [&](size_t gpu) {
    using Setting = topo::ReachRemedy::Setting;
    const Setting setting = topo::reach_remedy(decision, {gpu}).setting;
    return setting == Setting::kUnsetLevel || setting == Setting::kC2c;
  });
}

// GPUs that are far from their rails for one reason.
struct FarGpus {
  Finding finding;
  std::vector<std::string> gpus, rails;
};

std::string rail_label(const RailDecision& decision, size_t gpu) {
  return topology::port_label(decision.machine, decision.plan.first_rail_of(gpu)->port);
}

std::vector<FarGpus> far_gpus_by_reason(const topo::Inspection& inspection,
                                        const std::vector<size_t>& far) {
  std::vector<FarGpus> groups;
  for (const size_t gpu : far) {
    topo::CheckReport report;
    topo::check_reach(inspection, {gpu}, &report);
    if (report.faults.empty()) continue;
    const Finding& finding = report.faults[0];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const FarGpus& one) {
      return one.finding.text == finding.text && one.finding.fix == finding.fix;
    });
    if (group == groups.end()) group = groups.insert(group, {finding, {}, {}});
    group->gpus.push_back(topo::gpu_label(gpu));
    const std::string rail = rail_label(inspection.decision, gpu);
    if (std::count(group->rails.begin(), group->rails.end(), rail) == 0) {
      group->rails.push_back(rail);
    }
  }
  return groups;
}

// Where a setting is the reason for one of them, it is for all: it is the same on the whole
// machine.
Observations gpus_far_from_rails(const topo::Inspection& inspection,
                                 const std::vector<size_t>& far) {
  const bool by_setting = setting_forbids_reach(inspection.decision, far);
  Observations seen;
  for (const FarGpus& one : far_gpus_by_reason(inspection, far)) {
    const std::string subject = topo::short_list(one.gpus);
    const std::string evidence =
        fmt::format("{} ({} {})", one.finding.text, one.rails.size() == 1 ? "rail" : "rails",
                    topo::short_list(one.rails));
    seen.push_back(by_setting ? failure(subject, evidence, one.finding.fix)
                              : warning(subject, evidence, one.finding.fix));
  }
  return seen;
}

// The nearest rail of a GPU that is not usable, and would be nearer than the one it has; null where
// there is none.
const topology::Rail* nearer_unusable_rail(const RailDecision& decision, size_t gpu) {
  const topology::Rail* nearest = nullptr;
  topology::PathClass path = decision.plan.gpus[gpu].path;
  for (const topology::Rail& rail : decision.plan.rails) {
    const auto hca = static_cast<size_t>(rail.port.hca);
    if (rail.usable || decision.paths.gpu_hca(gpu, hca) >= path) continue;
    nearest = &rail;
    path = decision.paths.gpu_hca(gpu, hca);
  }
  return nearest;
}

// Takes the GPUs out of `far` that are far from a rail only as long as a nearer one is down. No
// level is advised for them.
Observations gpus_of_unusable_rails(const RailDecision& decision, std::vector<size_t>* far) {
  Observations seen;
  std::erase_if(*far, [&](size_t gpu) {
    const topology::Rail* lost = nearer_unusable_rail(decision, gpu);
    if (lost == nullptr) return false;
    const bool is_down =
        topology::port_of(decision.machine, lost->port).state == topology::Port::State::kDown;
    seen.push_back(
        warning(topo::gpu_name(decision.machine, gpu),
                fmt::format("no GPUDirect RDMA: its nearest port {} is {}, so that it shares {}",
                            topology::port_label(decision.machine, lost->port),
                            is_down ? "DOWN" : "not usable", rail_label(decision, gpu)),
                "bring up that port: nccl-gdr doctor --check port-state"));
    return true;
  });
  return seen;
}

// What NCCL does on a rail that is near enough. Without NVLinks it does not let HCAs read GPU
// memory by default (NCCL_NET_GDR_READ), so that the directions may differ.
std::string gpudirect_near_rail(const topo::Verdicts& verdicts) {
  if (verdicts.receive.direct && verdicts.send.direct) {
    return "GPUDirect RDMA: " + to_string(verdicts.receive);
  }
  if (!verdicts.receive.direct && !verdicts.send.direct) {
    return "near enough for GPUDirect RDMA, but NCCL uses none for another reason: " +
           verdicts.receive.reason;
  }
  return "GPUDirect RDMA for receiving: " + to_string(verdicts.receive) +
         "; for sending: " + to_string(verdicts.send);
}

Observation gpu_near_rail(const RailDecision& decision, size_t gpu) {
  const topology::Machine& machine = decision.machine;
  const std::string name = topo::gpu_name(machine, gpu);
  const topology::Rail* rail = decision.plan.first_rail_of(gpu);
  if (rail == nullptr) {
    return unknown(name, "it has no rail", "look at nccl-gdr doctor --check rails");
  }
  const auto hca = static_cast<size_t>(rail->port.hca);
  const char* path = topology::display_name(decision.plan.gpus[gpu].path, machine.gpus[gpu].at,
                                            machine.hcas[hca].at);
  return ok(name,
            fmt::format("its rail is {} at {}; {}", topology::port_label(machine, rail->port), path,
                        gpudirect_near_rail(topology::verdicts_between(decision, gpu, hca))));
}

Observations run_gpu_rail_path(const Host& host) {
  if (!host.inspection.has_value()) {
    return {unknown("", "the topology is unknown: " + topo::clean_text(host.inspection_error),
                    "mount /sys")};
  }
  const RailDecision& decision = host.inspection->decision;
  if (decision.machine.gpus.empty())
    return {nothing_on(host, "there is no GPU that could have a rail")};
  if (decision.machine.hcas.empty())
    return {nothing_on(host, "there is no HCA that could be a rail")};
  const std::vector<size_t> far = topo::gpus_out_of_reach(decision);
  std::vector<size_t> judged = far;
  Observations seen = gpus_of_unusable_rails(decision, &judged);
  for (Observation& one : gpus_far_from_rails(*host.inspection, judged)) {
    seen.push_back(std::move(one));
  }
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    const bool is_far = std::find(far.begin(), far.end(), gpu) != far.end();
    if (!is_far) seen.push_back(gpu_near_rail(decision, gpu));
  }
  return with_joined_subjects(std::move(seen));
}

}  // namespace

Check gpu_rail_path() {
  return {.name = "gpu-rail-path",
          .looks_at = "the path from each GPU to its rail, and whether NCCL allows GPUDirect there",
          .why =
              "NCCL copies through host memory where the path is longer than its level for "
              "GPUDirect RDMA (NCCL_NET_GDR_LEVEL), and logs nothing.",
          .cost = Cost::kHalves,
          .kind = FindingKind::kGdrReach,
          .run = run_gpu_rail_path};
}

}  // namespace gdr::tools::doctor

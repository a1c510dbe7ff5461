// How far each GPU is from its own rail, and whether NCCL uses GPUDirect RDMA between them.
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"
#include "tools/topo/reach.h"

namespace gdr::tools::doctor {
namespace {

using topo::RailDecision;

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
  Observations seen = findings_of(host, gpu_rail_path().kinds);
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
          .kinds = {FindingKind::kGdrReach},
          .of_silent_file = silent_file::of_rails,
          .run = run_gpu_rail_path};
}

}  // namespace gdr::tools::doctor

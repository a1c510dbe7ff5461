// Whether the HCAs of the rails can register the memory of the GPUs, and by which path.
#include <fmt/format.h>

#include <set>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/gpu_registration.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/doctor/silent_file.h"
#include "tools/topo/checks.h"

namespace gdr::tools::doctor {
namespace {

constexpr char kNoGpuDirectByGpu[] =
    "CUDA reports that it has no GPUDirect RDMA (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED is "
    "0), as for GeForce GPUs, and NCCL then uses none";

// Names of the HCAs of rails; of all HCAs where no port is a rail.
std::set<std::string> registering_hcas(const Host& host) {
  std::set<std::string> names;
  if (!host.inspection.has_value()) {
    for (const auto& [name, unused] : host.gpus.hcas) names.insert(name);
    return names;
  }
  const topo::RailDecision& decision = host.inspection->decision;
  for (const auto& [hca, unused] : topo::rails_by_hca(decision.plan)) {
    names.insert(decision.machine.hcas[static_cast<size_t>(hca)].name);
  }
  if (!names.empty()) return names;
  for (const topology::Hca& hca : decision.machine.hcas) names.insert(hca.name);
  return names;
}

Observation no_registration(const Host& host, const std::string& hca, const std::string& evidence) {
  const std::string open =
      "install NVIDIA's open kernel modules (nvidia-open, driver 515 or newer) on Linux 5.12 or "
      "newer with rdma-core 34 or newer, for dma-buf";
  if (!kernel_accepts_peermem(host)) {
    return failure(hca,
                   evidence +
                       "; nvidia-peermem cannot be loaded, as the kernel's ib_core has "
                       "no peer-memory interface (/proc/kallsyms)",
                   open + "; or the HCA's drivers of DOCA-Host, which accept nvidia-peermem");
  }
  if (is_in_container(host)) {
    return failure(hca, evidence,
                   "on the host of this container: modprobe nvidia-peermem; or " + open);
  }
  return failure(hca, evidence, "modprobe nvidia-peermem; or " + open,
                 {{"Load nvidia-peermem. To load it at every start, put its name into "
                   "/etc/modules-load.d/nvidia-peermem.conf.",
                   "modprobe nvidia-peermem", "modprobe -r nvidia-peermem"}});
}

bool is_usable_registration(const PathState& path, bool by_user) {
  return by_user && path.works == Works::kYes;
}

Observation registration_switched_off(const std::string& hca, const PathState& dmabuf,
                                      const PathState& peermem) {
  const bool has_dmabuf = dmabuf.works == Works::kYes;
  return failure(
      hca,
      fmt::format("GPU memory could be registered {} ({}), which NCCL_DMABUF_ENABLE=0 "
                  "or GDR_NCCL_GPU_MEMORY switches off",
                  has_dmabuf ? "by dma-buf" : "by its address",
                  has_dmabuf ? dmabuf.text : peermem.text),
      fmt::format("unset {}GDR_NCCL_GPU_MEMORY, or let it name {}",
                  has_dmabuf ? "NCCL_DMABUF_ENABLE and " : "", has_dmabuf ? "dmabuf" : "peermem"));
}

Observation registration_of(const Host& host, const std::string& hca, const PathState& exported,
                            const transport::RegistrationPaths& allowed) {
  const PathState dmabuf = by_dmabuf(host, exported, hca), peermem = by_peermem(host, hca);
  const bool by_any = dmabuf.works == Works::kYes || peermem.works == Works::kYes;
  if (by_any && !is_usable_registration(dmabuf, allowed.dmabuf) &&
      !is_usable_registration(peermem, allowed.peermem)) {
    return registration_switched_off(hca, dmabuf, peermem);
  }
  if (is_usable_registration(dmabuf, allowed.dmabuf)) {
    return ok(hca, "GPU memory can be registered by dma-buf: " + dmabuf.text);
  }
  if (is_usable_registration(peermem, allowed.peermem)) {
    return ok(hca, "GPU memory can be registered by its address: " + peermem.text);
  }
  if (dmabuf.works == Works::kNo && peermem.works == Works::kNo) {
    return no_registration(host, hca,
                           fmt::format("GPU memory can be registered neither by dma-buf ({}) nor "
                                       "by its address ({})",
                                       dmabuf.text, peermem.text));
  }
  return unknown(hca,
                 fmt::format("whether GPU memory can be registered is unknown: by dma-buf, {}; by "
                             "its address, {}",
                             dmabuf.text, peermem.text),
                 host.is_live ? "mount /sys, and let this user open /dev/infiniband"
                              : "run it on the machine itself");
}

// GPUs that have no GPUDirect RDMA by any path.
Observations gpus_without_gpudirect(const Host& host) {
  Observations seen;
  for (const auto& [bdf, fact] : host.gpus.gpus) {
    if (fact.gpudirect != false) continue;
    seen.push_back(failure(nvidia_gpu_label(host, bdf), kNoGpuDirectByGpu,
                           "use a data-center or professional GPU; there is no setting for it"));
  }
  return seen;
}

Observations run_memory_registration(const Host& host) {
  if (!has_driven_nvidia_gpu(host)) {
    return {nothing_on(
        host, "there is no NVIDIA GPU with a loaded driver, whose memory could be registered")};
  }
  const std::set<std::string> hcas = registering_hcas(host);
  if (hcas.empty()) return {nothing_on(host, "there is no HCA that could register GPU memory")};
  Findings unused;
  const auto allowed = config::allowed_paths(config::load(host.environment, &unused));
  const PathState exported = export_of_dmabuf(host);
  Observations seen = gpus_without_gpudirect(host);
  for (const std::string& hca : hcas) {
    seen.push_back(registration_of(host, hca, exported, allowed));
  }
  return with_joined_subjects(std::move(seen));
}

}  // namespace

Check memory_registration() {
  return {.name = "memory-registration",
          .looks_at = "whether the rails' HCAs can register GPU memory: dma-buf or nvidia-peermem",
          .why =
              "GPUDirect RDMA needs one of the two; without, all data is copied through host "
              "memory.",
          .cost = Cost::kHalves,
          .kinds = {FindingKind::kNoGpuDirect},
          .of_silent_file = silent_file::of_registration,
          .run = run_memory_registration};
}

}  // namespace gdr::tools::doctor

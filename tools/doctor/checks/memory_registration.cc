// Whether the HCAs of the rails can register the memory of the GPUs, and by which path.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/joined.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/topo/checks.h"
#include "transport/device/peermem.h"

namespace gdr::tools::doctor {
namespace {

// Whether one registration path works, and the reason, as a part of a sentence.
struct PathState {
  enum class Works { kNo, kUnknown, kYes };
  Works works = Works::kUnknown;
  std::string text;
};
using Works = PathState::Works;

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

// The part of dma-buf that is the GPUs'. What CUDA reports counts more than what follows from the
// kernel modules.
PathState export_of_dmabuf(const Host& host, const std::vector<NvidiaGpu>& gpus) {
  std::vector<std::string> without;
  bool any_known = false;
  for (const NvidiaGpu& gpu : gpus) {
    const auto fact = host.gpus.gpus.find(gpu.bdf);
    const bool known = fact != host.gpus.gpus.end() && fact->second.exports_dmabuf.has_value();
    any_known = any_known || known;
    if (known && !*fact->second.exports_dmabuf) without.push_back(nvidia_gpu_label(host, gpu.bdf));
  }
  const NvidiaModule module = nvidia_module(host);
  const std::string modules =
      !module.is_open.has_value()
          ? ""
          : fmt::format(" ({} kernel modules {})", *module.is_open ? "open" : "proprietary",
                        module.version);
  if (!without.empty()) {
    return {Works::kNo, "CUDA exports no dma-buf of " + topo::short_list(without) + modules};
  }
  if (any_known) return {Works::kYes, "CUDA exports dma-bufs" + modules};
  if (!module.is_open.has_value()) {
    return {Works::kUnknown, "whether NVIDIA's kernel modules are the open ones is unknown"};
  }
  if (*module.is_open) return {Works::kYes, "NVIDIA's open kernel modules export dma-bufs"};
  return {Works::kNo, "NVIDIA's kernel modules are the proprietary ones, which export no dma-buf"};
}

// Linux 5.12 was the first to register dma-bufs with an HCA. False for a release that is unknown.
bool is_before_dmabuf(const std::string& kernel) {
  int major = 0, minor = 0;
  if (std::sscanf(kernel.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major < 5 || (major == 5 && minor < 12);
}

// The part of dma-buf that is the HCA's: the kernel, the verbs library and the HCA's driver.
PathState import_of_dmabuf(const Host& host, const std::string& hca) {
  const auto fact = host.gpus.hcas.find(hca);
  if (fact == host.gpus.hcas.end()) {
    return {Works::kUnknown, "only its driver shows whether the HCA registers dma-bufs"};
  }
  const std::string kernel = kernel_release_of(host);
  if (fact->second.dmabuf) {
    return {Works::kYes, "Linux " + kernel + ", libibverbs and the HCA's driver register them"};
  }
  if (host.gpus.verbs_has_dmabuf == false) {
    return {Works::kNo, "libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 and newer have it)"};
  }
  if (is_before_dmabuf(kernel)) {
    return {Works::kNo, "Linux " + kernel + " registers none (5.12 and newer do)"};
  }
  return {Works::kNo, "the HCA's driver registers none (ibv_reg_dmabuf_mr: EOPNOTSUPP)"};
}

PathState by_dmabuf(const PathState& exported, const PathState& imported) {
  if (exported.works == Works::kNo) return exported;
  if (imported.works == Works::kNo) return imported;
  return {std::min(exported.works, imported.works), exported.text + ", and " + imported.text};
}

PathState by_peermem(const Host& host, const std::string& hca) {
  const auto fact = host.gpus.hcas.find(hca);
  const transport::Peermem found = fact != host.gpus.hcas.end()
                                       ? fact->second.peermem
                                       : transport::probe_peermem(host.path("/sys").string());
  if (found.kind == transport::PeermemKind::kUnknown) {
    return {Works::kUnknown, "whether nvidia-peermem is loaded is unknown, without /sys/module"};
  }
  if (!transport::is_present(found)) return {Works::kNo, "nvidia-peermem is not loaded"};
  const bool legacy = found.kind == transport::PeermemKind::kNvPeerMem;
  return {Works::kYes,
          fmt::format("{}{} is loaded (/sys/{})", legacy ? "nv_peer_mem" : "nvidia-peermem",
                      found.version.empty() ? "" : " " + found.version, found.found_at)};
}

// Whether the kernel has the interface that nvidia-peermem registers with. Linux itself lacks it;
// the HCA vendor's drivers and some distributions add it. Without it, the module's init function
// returns EINVAL (kernel-open/nvidia-peermem/nvidia-peermem.c of NVIDIA's kernel modules). True
// where the symbols of the kernel cannot be read.
bool kernel_accepts_peermem(const Host& host) {
  const std::string symbols = host.read("/proc/kallsyms").value_or("");
  return symbols.find(" ib_register_peer_memory_client") != std::string::npos ||
         symbols.find("[ib_core]") == std::string::npos;
}

Observation no_registration(const Host& host, const std::string& hca, const std::string& evidence,
                            const transport::RegistrationPaths& allowed) {
  if (!allowed.dmabuf && !allowed.peermem) {
    return failure(hca, evidence, "unset GDR_NCCL_GPU_MEMORY, or let it name dmabuf and peermem");
  }
  const std::string open =
      "install NVIDIA's open kernel modules (nvidia-open, driver 515 or newer) on Linux 5.12 or "
      "newer with rdma-core 34 or newer, for dma-buf";
  if (!allowed.peermem) return failure(hca, evidence, open);
  if (!kernel_accepts_peermem(host)) {
    return failure(hca,
                   evidence +
                       "; nvidia-peermem cannot be loaded, as the kernel's ib_core has "
                       "no peer-memory interface (/proc/kallsyms)",
                   open + "; or the HCA's drivers of DOCA-Host, which accept nvidia-peermem");
  }
  if (has_container_mark(host)) {
    return failure(hca, evidence,
                   "on the host of this container: modprobe nvidia-peermem; or " + open);
  }
  return failure(hca, evidence, "modprobe nvidia-peermem; or " + open,
                 {{"Load nvidia-peermem. To load it at every start, put its name into "
                   "/etc/modules-load.d/nvidia-peermem.conf.",
                   "modprobe nvidia-peermem", "modprobe -r nvidia-peermem"}});
}

Observation registration_of(const Host& host, const std::string& hca, const PathState& exported,
                            const transport::RegistrationPaths& allowed) {
  PathState dmabuf = by_dmabuf(exported, import_of_dmabuf(host, hca));
  PathState peermem = by_peermem(host, hca);
  if (!allowed.dmabuf) {
    dmabuf = {Works::kNo, "switched off by GDR_NCCL_GPU_MEMORY or NCCL_DMABUF_ENABLE=0"};
  }
  if (!allowed.peermem) peermem = {Works::kNo, "switched off by GDR_NCCL_GPU_MEMORY"};
  if (dmabuf.works == Works::kYes) {
    return ok(hca, "GPU memory can be registered by dma-buf: " + dmabuf.text);
  }
  if (peermem.works == Works::kYes) {
    return ok(hca, "GPU memory can be registered by its address: " + peermem.text);
  }
  if (dmabuf.works == Works::kNo && peermem.works == Works::kNo) {
    return no_registration(host, hca,
                           fmt::format("GPU memory can be registered neither by dma-buf ({}) nor "
                                       "by its address ({})",
                                       dmabuf.text, peermem.text),
                           allowed);
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
    return {
        ok("", "there is no NVIDIA GPU with a loaded driver, whose memory could be registered")};
  }
  const std::set<std::string> hcas = registering_hcas(host);
  if (hcas.empty()) return {ok("", "there is no HCA that could register GPU memory")};
  Findings unused;
  const auto allowed = config::allowed_paths(config::load(host.environment, &unused));
  const PathState exported = export_of_dmabuf(host, *nvidia_gpus(host));
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
          .run = run_memory_registration};
}

}  // namespace gdr::tools::doctor

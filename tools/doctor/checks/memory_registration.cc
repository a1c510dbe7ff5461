// Whether the HCAs of the rails can register the memory of the GPUs, and by which path.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "plugin/config/load.h"
#include "plugin/config/topology_options.h"
#include "tools/doctor/checks/checks.h"
#include "tools/doctor/facts/nvidia_files.h"
#include "tools/doctor/nccl_settings.h"
#include "tools/doctor/topology.h"
#include "tools/inspection/rdma_devices.h"
#include "topology/sources/selection.h"
#include "transport/device/registration_paths.h"

namespace gdr::tools::doctor {
namespace {

enum class Works : uint8_t { kNo, kUnknown, kYes };

// Whether one registration path works, and the reason, as a part of a sentence.
struct PathState {
  Works works = Works::kUnknown;
  std::string text;
  std::string fix = {};  // of what works, and should be replaced
};

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
  return {Works::kNo, "the HCA's driver registers none, as ibv_reg_dmabuf_mr reports"};
}

// The part of dma-buf that is that of the machine's NVIDIA GPUs, the export. What CUDA reports
// counts more than what follows from the kernel modules.
PathState export_of_dmabuf(const Host& host) {
  std::vector<std::string> without;
  bool any_known = false;
  for (const NvidiaGpu& gpu : nvidia_gpus(host).value_or(std::vector<NvidiaGpu>{})) {
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
    return {Works::kNo, "CUDA exports no dma-buf of " + short_list(without) + modules};
  }
  if (any_known) return {Works::kYes, "CUDA exports dma-bufs" + modules};
  if (!module.is_open.has_value()) {
    return {Works::kUnknown, "whether NVIDIA's kernel modules are the open ones is unknown"};
  }
  if (*module.is_open) return {Works::kYes, "NVIDIA's open kernel modules export dma-bufs"};
  return {Works::kNo, "NVIDIA's kernel modules are the proprietary ones, which export no dma-buf"};
}

// By dma-buf: `exported` is export_of_dmabuf(); the rest is the kernel, the verbs library and the
// HCA's driver.
PathState by_dmabuf(const Host& host, const PathState& exported, const std::string& hca) {
  if (exported.works == Works::kNo) return exported;
  const PathState imported = import_of_dmabuf(host, hca);
  if (imported.works == Works::kNo) return imported;
  return {std::min(exported.works, imported.works), exported.text + ", and " + imported.text};
}

// By the address, which takes the module nvidia-peermem.
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
                      found.version.empty() ? "" : " " + topo::clean_text(found.version),
                      found.found_at),
          legacy
              ? "it is out of support: modprobe -r nv_peer_mem && modprobe nvidia-peermem, while "
                "no job runs, and remove the package nvidia-peer-memory"
              : ""};
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
  const RailDecision& decision = decision_of(host);
  for (const auto& [hca, unused] : rails_by_hca(decision.plan)) {
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
  return failure(hca, evidence, "modprobe nvidia-peermem; or " + open, {"modprobe nvidia-peermem"});
}

bool is_usable_registration(const PathState& path, bool by_user) {
  return by_user && path.works == Works::kYes;
}

Observation registration_switched_off(const Host& host, const std::string& hca,
                                      const PathState& dmabuf, const PathState& peermem) {
  const bool has_dmabuf = dmabuf.works == Works::kYes;
  return failure(
      hca,
      fmt::format("GPU memory could be registered {} ({}), which NCCL_DMABUF_ENABLE=0 "
                  "or GDR_NCCL_GPU_MEMORY switches off",
                  has_dmabuf ? "by dma-buf" : "by its address",
                  has_dmabuf ? dmabuf.text : peermem.text),
      fmt::format("{}{}, or let it name {}",
                  has_dmabuf ? unset_text(host, "NCCL_DMABUF_ENABLE") + "; " : "",
                  unset_text(host, "GDR_NCCL_GPU_MEMORY"), has_dmabuf ? "dmabuf" : "peermem"));
}

Observation registration_of(const Host& host, const std::string& hca, const PathState& exported,
                            const transport::RegistrationPaths& allowed) {
  const PathState dmabuf = by_dmabuf(host, exported, hca), peermem = by_peermem(host, hca);
  const bool by_any = dmabuf.works == Works::kYes || peermem.works == Works::kYes;
  if (by_any && !is_usable_registration(dmabuf, allowed.dmabuf) &&
      !is_usable_registration(peermem, allowed.peermem)) {
    return registration_switched_off(host, hca, dmabuf, peermem);
  }
  if (is_usable_registration(dmabuf, allowed.dmabuf)) {
    return ok(hca, "GPU memory can be registered by dma-buf: " + dmabuf.text);
  }
  if (is_usable_registration(peermem, allowed.peermem)) {
    const std::string text = "GPU memory can be registered by its address: " + peermem.text;
    return peermem.fix.empty() ? ok(hca, text)
                               : at_cost(Cost::kRisk, warning(hca, text, peermem.fix));
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

bool has_nvidia_gpus(const Machine& machine) {
  return !machine.gpus.empty() && machine.gpus[0].ids.vendor == topology::kNvidia;
}

// How a GPU of another vendor gets GPUDirect RDMA.
constexpr char kOtherDriver[] =
    "use a kernel and a GPU driver with dma-buf and peer-to-peer DMA, or the driver's module for "
    "peer memory";

// HCAs of rails that are known to lack GPUDirect RDMA. Network interfaces without an RDMA device
// are no HCAs; returns whether all rails are such.
bool check_hca_registration(const RailDecision& decision, Findings* found) {
  const Machine& machine = decision.machine;
  std::vector<std::string> hcas;
  bool any = false;
  for (const auto& [hca, unused] : rails_by_hca(decision.plan)) {
    const Hca& one = machine.hcas[static_cast<size_t>(hca)];
    if (!topo::is_rdma_device(machine, one)) continue;
    any = true;
    if (!one.gpudirect.value_or(true)) hcas.push_back(one.name);
  }
  if (!hcas.empty() && !machine.gpus.empty()) {
    found->push_back({FindingKind::kNoGpuDirect, Severity::kError, short_list(hcas),
                      "cannot register GPU memory: neither dma-buf nor nvidia-peermem",
                      has_nvidia_gpus(machine)
                          ? "load the kernel module nvidia-peermem, or use a kernel and a driver "
                            "with dma-buf"
                          : kOtherDriver});
  }
  return !any && !decision.plan.rails.empty();
}

}  // namespace

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
  return seen;
}

// HCAs of rails, and GPUs, that are known to lack GPUDirect RDMA.
void judge_registration(const Host& host, Findings* found) {
  const RailDecision& decision = decision_of(host);
  const Machine& machine = decision.machine;
  if (check_hca_registration(decision, found)) return;
  std::vector<size_t> gpus;
  for (size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
    if (!machine.gpus[gpu].gpudirect.value_or(true)) gpus.push_back(gpu);
  }
  if (gpus.empty()) return;
  found->push_back(
      {FindingKind::kNoGpuDirect, Severity::kError, short_list(gpu_labels(gpus)),
       "the driver offers no GPUDirect RDMA on the GPU",
       has_nvidia_gpus(machine)
           ? "use a data-center GPU with NVIDIA's open kernel modules, and look at its driver"
           : kOtherDriver});
}

}  // namespace gdr::tools::doctor

#include "tools/doctor/gpu_registration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tools/doctor/host.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/topo/labels.h"
#include "tools/topo/short_list.h"
#include "transport/device/peermem.h"

namespace gdr::tools::doctor {
namespace {

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

}  // namespace

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
    return {Works::kNo, "CUDA exports no dma-buf of " + topo::short_list(without) + modules};
  }
  if (any_known) return {Works::kYes, "CUDA exports dma-bufs" + modules};
  if (!module.is_open.has_value()) {
    return {Works::kUnknown, "whether NVIDIA's kernel modules are the open ones is unknown"};
  }
  if (*module.is_open) return {Works::kYes, "NVIDIA's open kernel modules export dma-bufs"};
  return {Works::kNo, "NVIDIA's kernel modules are the proprietary ones, which export no dma-buf"};
}

PathState by_dmabuf(const Host& host, const PathState& exported, const std::string& hca) {
  if (exported.works == Works::kNo) return exported;
  const PathState imported = import_of_dmabuf(host, hca);
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
                      found.version.empty() ? "" : " " + topo::clean_text(found.version),
                      found.found_at)};
}

bool kernel_accepts_peermem(const Host& host) {
  const std::string symbols = host.read("/proc/kallsyms").value_or("");
  return symbols.find(" ib_register_peer_memory_client") != std::string::npos ||
         symbols.find("[ib_core]") == std::string::npos;
}

}  // namespace gdr::tools::doctor

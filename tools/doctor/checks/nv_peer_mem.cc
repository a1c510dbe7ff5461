#include <filesystem>
#include <system_error>

#include "tools/doctor/checks/checks.h"
#include "tools/doctor/host.h"
#include "tools/doctor/nvidia_files.h"
#include "tools/topo/labels.h"
#include "transport/device/peermem.h"

namespace gdr::tools::doctor {
namespace {

std::string nv_peer_mem_evidence(const transport::Peermem& found) {
  return "the module nv_peer_mem" +
         (found.version.empty() ? "" : " " + topo::clean_text(found.version)) +
         " is loaded (/sys/module/nv_peer_mem), which is out of support";
}

Observation legacy_nv_peer_mem(const transport::Peermem& found, bool in_container) {
  const std::string fix =
      "modprobe -r nv_peer_mem && modprobe nvidia-peermem, while no job runs, and remove the "
      "package nvidia-peer-memory so that it does not come back";
  const std::string evidence = nv_peer_mem_evidence(found);
  if (in_container) return warning("", evidence, "on the host of this container: " + fix);
  return warning(
      "", evidence, fix,
      {{"Replace nv_peer_mem by nvidia-peermem, which comes with the driver; no job may run.",
        "modprobe -r nv_peer_mem && modprobe nvidia-peermem",
        "modprobe -r nvidia-peermem && modprobe nv_peer_mem"}});
}

Observations run_nv_peer_mem(const Host& host) {
  std::error_code ignored;
  const bool is_loaded =
      std::filesystem::is_directory(host.path("/sys/module/nv_peer_mem"), ignored);
  const transport::Peermem found = transport::probe_peermem(host.path("/sys").string());
  if (is_loaded || found.kind == transport::PeermemKind::kNvPeerMem) {
    return {legacy_nv_peer_mem(found, is_in_container(host))};
  }
  if (found.kind == transport::PeermemKind::kUnknown) {
    return {unknown("", "there is no /sys/module", "mount /sys")};
  }
  return {ok("", "the legacy module nv_peer_mem is not loaded (/sys/module)")};
}

}  // namespace

Check nv_peer_mem() {
  return {.name = "nv-peer-mem",
          .looks_at = "whether the legacy module nv_peer_mem is loaded",
          .why =
              "NVIDIA ended its support: it does not follow updates of the driver and the "
              "kernel, and GPUDirect RDMA fails after one of them.",
          .cost = Cost::kRisk,
          .run = run_nv_peer_mem};
}

}  // namespace gdr::tools::doctor

#include "plugin/rail_warnings.h"

#include <utility>

#include "base/finding.h"
#include "base/log.h"
#include "topology/live/gdr_verdict.h"

namespace gdr::plugin {
namespace {

// A user who set the level chose this; one who did not may lose half of the bandwidth unawares.
// Without knowledge of NVLinks the distance may be shorter than it looks, so there is no warning.
bool is_chosen_distance(const topology::RailDecision& decision) {
  return decision.gdr_level.has_value() || !decision.machine.gpu_links_known;
}

// Whether a GPU that is nearer to the HCA is one NVLink away. By PXN NCCL sends over it, and then
// compares its distance with the level in both directions (ncclTopoCheckGdr in src/graph/paths.cc).
bool has_relay(const topology::RailDecision& decision, size_t gpu, size_t hca) {
  for (size_t other = 0; other < decision.machine.gpus.size(); ++other) {
    if (decision.paths.gpu_gpu(gpu, other) != topology::PathClass::kNvl) continue;
    if (topology::gdr_verdict(decision, other, hca).direct) return true;
  }
  return false;
}

}  // namespace

RailWarnings::RailWarnings(const topology::RailDecision& decision,
                           std::vector<topology::PortRef> ports, RailWarningOptions options,
                           WhyNotDirect why_not_direct)
    : decision_(decision),
      ports_(std::move(ports)),
      options_(options),
      why_not_direct_(std::move(why_not_direct)) {}

bool RailWarnings::log_once(const std::string& key) {
  std::lock_guard lock(mutex_);
  return logged_.insert(key).second;
}

Status RailWarnings::check_device(int device, int gpu) {
  if (gpu < 0 || device < 0 || static_cast<size_t>(device) >= ports_.size()) return {};
  const topology::PortRef port = ports_[device];
  const size_t hca = static_cast<size_t>(port.hca), index = static_cast<size_t>(gpu);
  const topology::GdrVerdict verdict = topology::gdr_verdict(decision_, index, hca);
  if (verdict.direct) return {};
  if (verdict.too_far && options_.relays && has_relay(decision_, index, hca)) return {};
  const std::string pair = "GPU" + std::to_string(gpu) + " uses " +
                           topology::port_label(decision_.machine, port) +
                           " without GPUDirect RDMA";
  Finding finding{FindingKind::kNoGpuDirect, Severity::kWarning, "",
                  pair + ", through host memory: " + verdict.reason, ""};
  if (verdict.too_far) {
    if (!options_.strict && is_chosen_distance(decision_)) finding.severity = Severity::kInfo;
    finding.fix = std::string(
                      "use an HCA under the GPU's own switch; where none is missing (nccl-gdr "
                      "doctor), NCCL_NET_GDR_LEVEL=") +
                  topology::to_string(verdict.distance) + " allows it";
  } else if (!decision_.machine.hcas[hca].gpudirect.value_or(true)) {
    finding.text += ". " + why_not_direct_(device);
  }
  if (options_.strict && !verdict.too_far) {
    return fail(Code::kSystem, to_string(finding) + ". GDR_NCCL_STRICT=1 forbids that");
  }
  if (log_once(pair)) log_findings({finding}, log::kInit | log::kNet);
  return {};
}

void RailWarnings::check_rails(int here, int there, const std::string& connection) {
  if (here < 0 || there < 0 || here == there) return;
  const std::string numbers = "rail " + std::to_string(here) + " to rail " + std::to_string(there);
  const Finding finding{
      FindingKind::kCrossRail, options_.warn_cross_rail ? Severity::kWarning : Severity::kInfo,
      numbers, connection + ": a rail-optimised fabric is slow between rails, or has no path",
      "connect devices of one rail; NCCL_CROSS_NIC=0 keeps NCCL's rings on their rails"};
  if (log_once(numbers)) log_findings({finding}, log::kInit | log::kNet);
}

}  // namespace gdr::plugin

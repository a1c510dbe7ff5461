#include "topology/live/gdr_verdict.h"

namespace gdr::topology {
namespace {

// A GPU with NVLink-C2C reaches the HCAs beside its CPU over that.
PathClass gdr_distance(const RailDecision& decision, size_t gpu, size_t hca) {
  const PathClass path = decision.paths.gpu_hca(gpu, hca);
  const bool over_c2c = path == PathClass::kPhb && decision.machine.gpus[gpu].c2c_links > 0;
  return over_c2c ? PathClass::kP2c : path;
}

std::string level_text(const std::optional<PathClass>& level) {
  if (level.has_value()) return std::string("NCCL_NET_GDR_LEVEL=") + to_string(*level);
  return std::string(to_string(kDefaultGdrLevel)) + ", the level where NCCL_NET_GDR_LEVEL is unset";
}

}  // namespace

GdrVerdict gdr_verdict(const RailDecision& decision, size_t gpu, size_t hca) {
  const Machine& machine = decision.machine;
  const char* or_file = machine.nccl_file ? ", or gdr=\"0\" in NCCL's topology file" : "";
  GdrVerdict verdict;
  verdict.distance = gdr_distance(decision, gpu, hca);
  if (!machine.hcas[hca].gpudirect.value_or(true)) {
    verdict.reason =
        machine.hcas[hca].name + " registers no GPU memory: neither dma-buf nor peermem" + or_file;
  } else if (!machine.gpus[gpu].gpudirect.value_or(true)) {
    verdict.reason = std::string("the driver offers no GPUDirect RDMA on this GPU") + or_file;
  } else {
    verdict.direct = verdict.distance <= decision.gdr_level.value_or(kDefaultGdrLevel);
    verdict.too_far = !verdict.direct;
    verdict.reason = std::string(to_string(verdict.distance)) +
                     (verdict.direct ? " is within " : " is beyond ") +
                     level_text(decision.gdr_level);
  }
  return verdict;
}

}  // namespace gdr::topology

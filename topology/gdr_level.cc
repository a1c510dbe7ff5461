#include "topology/gdr_level.h"

#include <cctype>
#include <cstdlib>

namespace gdr::topology {
namespace {

// The numeric form of NCCL's first releases (ncclGetLevel in src/graph/paths.cc); larger numbers
// mean the last.
constexpr PathClass kLegacyLevels[] = {PathClass::kLoc, PathClass::kPix, PathClass::kPxb,
                                       PathClass::kPhb, PathClass::kSys};
constexpr long kLegacyLevelCount = sizeof(kLegacyLevels) / sizeof(kLegacyLevels[0]);

std::string level_text(const GdrPolicy& policy) {
  std::string name = to_string(policy.farthest());
  if (policy.level.has_value()) return "NCCL_NET_GDR_LEVEL=" + name;
  return name + ", the level where NCCL_NET_GDR_LEVEL is unset";
}

Verdict no(std::string reason) { return Verdict{false, false, std::move(reason)}; }

// NCCL's default for sends (ncclTopoCheckGdr in src/graph/paths.cc): an HCA reads the memory of
// GPUs before Ampere slowly, so it is allowed to only where NVLink carries the traffic between
// GPUs.
bool reads_by_default(const Machine& machine, const PathTable& paths, size_t gpu) {
  int capability = machine.gpus[gpu].compute_capability;
  if (capability == 0 || capability >= 80 || machine.gpus.size() == 1) return true;
  for (size_t other = 0; other < machine.gpus.size(); ++other) {
    if (other != gpu && paths.gpu_gpu(gpu, other) == PathClass::kNvl) return true;
  }
  return false;
}

}  // namespace

Result<GdrLevel> GdrLevel::parse(std::string_view text) {
  GdrLevel level;
  for (int i = 0; i < kPathClasses; ++i) {
    if (text != topology::to_string(static_cast<PathClass>(i))) continue;
    level.path_ = static_cast<PathClass>(i);
    return level;
  }
  if (text.empty() || text[0] < '0' || text[0] > '9') {
    return fail(Code::kInvalidUsage,
                "it is neither a path class in capitals nor a number, so NCCL ignores it too");
  }
  long number = std::strtol(std::string(text).c_str(), nullptr, 0);
  level.path_ = kLegacyLevels[number >= kLegacyLevelCount ? kLegacyLevelCount - 1 : number];
  level.number_note_ = "NCCL takes the number " + std::string(text) +
                       " of NCCL_NET_GDR_LEVEL for " + level.to_string() +
                       " (0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS; some " +
                       "guides number them differently): write the name instead";
  return level;
}

PathClass GdrPolicy::farthest() const {
  return level.value_or(c2c ? PathClass::kP2c : PathClass::kPxb);
}

Verdict gdr_verdict(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                    size_t gpu, size_t hca, Direction direction) {
  if (!machine.hcas[hca].gpudirect.value_or(true)) {
    return no(machine.hcas[hca].name + " registers no GPU memory: neither dma-buf nor peermem");
  }
  if (!machine.gpus[gpu].gpudirect.value_or(true)) {
    return no("the driver offers no GPUDirect RDMA on this GPU");
  }
  if (direction == Direction::kSend) {
    if (policy.read == 0) return no("NCCL_NET_GDR_READ=0");
    if (policy.read < 0 && !reads_by_default(machine, paths, gpu)) {
      return no(
          "GPUs before compute capability 8.0 without NVLink send directly only with "
          "NCCL_NET_GDR_READ=1");
    }
  }
  size_t through = gpu;
  PathClass path = paths.gpu_hca_with_pxn(gpu, hca, &through);
  std::string words = to_string(path);
  if (path == PathClass::kPxn) {
    path = paths.gpu_hca(through, hca);
    words = "PXN through GPU" + std::to_string(through) + ", from there " + to_string(path);
  }
  if (path > policy.farthest()) {
    return Verdict{false, true, words + " is beyond " + level_text(policy)};
  }
  return Verdict{true, false, words + " is within " + level_text(policy)};
}

std::string to_string(const Verdict& verdict) {
  return (verdict.direct ? "yes: " : "no: ") + verdict.reason;
}

Verdicts gdr_verdicts(const Machine& machine, const PathTable& paths, const GdrPolicy& policy,
                      size_t gpu, size_t hca) {
  return {gdr_verdict(machine, paths, policy, gpu, hca, Direction::kSend),
          gdr_verdict(machine, paths, policy, gpu, hca, Direction::kReceive)};
}

}  // namespace gdr::topology

#include "topology/nccl/prediction.h"

namespace gdr::topology::nccl {
namespace {

Verdict no(std::string reason) { return Verdict{false, false, false, std::move(reason)}; }

// Returns the farthest class over which NCCL allows GPUDirect.
PathClass farthest(const Settings& settings) {
  return settings.gdr_level.value_or(settings.gdr_c2c.value_or(true) ? PathClass::kP2c
                                                                     : PathClass::kPxb);
}

std::string level_text(const Settings& settings) {
  std::string name = topology::to_string(farthest(settings));
  if (settings.gdr_level.has_value()) return "NCCL_NET_GDR_LEVEL=" + name;
  return name + ", the level where NCCL_NET_GDR_LEVEL is unset";
}

}  // namespace

std::string to_string(const Verdict& verdict) {
  return (verdict.direct ? "yes: " : "no: ") + verdict.reason;
}

Prediction::Prediction(const Machine& machine, std::vector<PortRef> devices,
                       const Settings& settings)
    : settings_(settings), devices_(std::move(devices)), gpus_(machine.gpus.size()) {
  PathTable paths(machine);
  for (size_t a = 0; a < gpus_; ++a) {
    for (size_t b = 0; b < gpus_; ++b) gpu_gpu_.push_back({paths.gpu_gpu(a, b), true, 0, 0, -1});
  }
  for (const PortRef& port : devices_) {
    device_names_.push_back(machine.hcas[port.hca].name);
    device_gpudirect_.push_back(machine.hcas[port.hca].gpudirect.value_or(true));
    local_gpus_.push_back(-1);
  }
  for (size_t gpu = 0; gpu < gpus_; ++gpu) {
    const Gpu& one = machine.gpus[gpu];
    GpuFacts facts{one.gpudirect.value_or(true), one.compute_capability, one.partition >= 0,
                   one.c2c_links > 0, false};
    for (size_t other = 0; other < gpus_; ++other) {
      if (paths.gpu_gpu(gpu, other) == PathClass::kNvl) facts.has_nvlink = true;
    }
    gpu_facts_.push_back(facts);
    std::vector<size_t> used;
    PathClass least = PathClass::kSys;
    for (size_t device = 0; device < devices_.size(); ++device) {
      const auto hca = static_cast<size_t>(devices_[device].hca);
      size_t through = gpu;
      PathClass path = paths.gpu_hca_with_pxn(gpu, hca, &through);
      to_device_.push_back({path, true, 0, 0, through == gpu ? -1 : static_cast<int>(through)});
      from_device_.push_back({paths.gpu_hca(gpu, hca), true, 0, 0, -1});
      if (used.empty() || path < least) {
        used.clear();
        least = path;
      }
      if (path == least) used.push_back(device);
    }
    used_.push_back(used);
  }
}

int Prediction::device_of(size_t hca) const {
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (static_cast<size_t>(devices_[device].hca) == hca) return static_cast<int>(device);
  }
  return -1;
}

Verdict Prediction::verdict(size_t gpu, size_t device, Direction direction) const {
  const GpuFacts& facts = gpu_facts_[gpu];
  if (!device_gpudirect_[device]) {
    return no(device_names_[device] + " registers no GPU memory: neither dma-buf nor peermem");
  }
  if (!facts.gpudirect) return no("the driver offers no GPUDirect RDMA on this GPU");
  if (direction == Direction::kSend) {
    if (settings_.gdr_read == 0) return no("NCCL_NET_GDR_READ=0");
    const bool slow = facts.compute_capability != 0 && facts.compute_capability < 80;
    if (settings_.gdr_read < 0 && slow && gpus_ > 1 && !facts.has_nvlink) {
      return no(
          "GPUs before compute capability 8.0 without NVLink send directly only with "
          "NCCL_NET_GDR_READ=1");
    }
  }
  const Route& route = gpu_to_device(gpu, device);
  PathClass path = route.path;
  std::string words = topology::to_string(path);
  if (path == PathClass::kPxn) {
    path = device_to_gpu(device, static_cast<size_t>(route.through_gpu)).path;
    words = "PXN through GPU" + std::to_string(route.through_gpu) + ", from there " +
            topology::to_string(path);
  }
  if (path > farthest(settings_)) {
    return Verdict{false, true, false, words + " is beyond " + level_text(settings_)};
  }
  return Verdict{true, false, facts.over_c2c && path != PathClass::kP2c,
                 words + " is within " + level_text(settings_)};
}

Verdicts Prediction::verdicts(size_t gpu, size_t device) const {
  return {verdict(gpu, device, Direction::kSend), verdict(gpu, device, Direction::kReceive)};
}

}  // namespace gdr::topology::nccl

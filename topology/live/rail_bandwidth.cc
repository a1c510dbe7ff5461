#include "topology/live/rail_bandwidth.h"

#include <algorithm>

namespace gdr::topology {
namespace {

constexpr double kSmallestLoss = 1e-6;  // sums of fractions are not exact

bool has(const std::vector<size_t>& list, size_t one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

using DevicesOfGpus = std::vector<std::vector<size_t>>;  // parallel to Machine::gpus

double sum_of_shares(const RailDecision& decision, const DevicesOfGpus& all, size_t gpu) {
  double sum = 0;
  for (size_t device : all[gpu]) {
    const auto users = std::count_if(all.begin(), all.end(),
                                     [&](const auto& devices) { return has(devices, device); });
    sum += bandwidth_of(decision.prediction, gpu, device) / static_cast<double>(users);
  }
  return sum;
}

// Returns the GPU and those that share a rail or a device with it, or with one of them.
std::vector<size_t> sharing_gpus(const RailDecision& decision, size_t gpu) {
  const size_t gpus = decision.machine.gpus.size();
  std::vector<size_t> found = {gpu}, devices;
  for (size_t i = 0; i < found.size(); ++i) {
    const std::vector<size_t>& used = decision.prediction.devices_of_gpu(found[i]);
    devices = rail_devices(decision, found[i]);
    devices.insert(devices.end(), used.begin(), used.end());
    for (size_t other = 0; other < gpus; ++other) {
      if (has(found, other)) continue;
      const std::vector<size_t> rails = rail_devices(decision, other);
      const std::vector<size_t>& theirs = decision.prediction.devices_of_gpu(other);
      const bool shares = std::any_of(devices.begin(), devices.end(), [&](size_t device) {
        return has(rails, device) || has(theirs, device);
      });
      if (shares) found.push_back(other);
    }
  }
  return found;
}

}  // namespace

std::vector<size_t> rail_devices(const RailDecision& decision, size_t gpu) {
  std::vector<size_t> devices;
  const std::vector<PortRef>& ports = decision.prediction.devices();
  for (const Rail* rail : decision.plan.rails_of(gpu)) {
    const auto at = std::find(ports.begin(), ports.end(), rail->port);
    if (at != ports.end()) devices.push_back(static_cast<size_t>(at - ports.begin()));
  }
  return devices;
}

double bandwidth_of(const nccl::Prediction& prediction, size_t gpu, size_t device) {
  return std::min(prediction.gpu_to_device(gpu, device).gb_per_s,
                  prediction.device_to_gpu(device, gpu).gb_per_s);
}

size_t users_of(const RailDecision& decision, size_t device) {
  size_t users = 0;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    if (has(decision.prediction.devices_of_gpu(gpu), device)) ++users;
  }
  return users;
}

bool has_idle_rail(const RailDecision& decision, size_t gpu) {
  const std::vector<size_t> rails = rail_devices(decision, gpu);
  return std::any_of(rails.begin(), rails.end(),
                     [&](size_t device) { return users_of(decision, device) == 0; });
}

std::vector<GpuBandwidth> gpu_bandwidths(const RailDecision& decision) {
  DevicesOfGpus rails, used;
  for (size_t gpu = 0; gpu < decision.machine.gpus.size(); ++gpu) {
    rails.push_back(rail_devices(decision, gpu));
    used.push_back(decision.prediction.devices_of_gpu(gpu));
  }
  std::vector<GpuBandwidth> all;
  for (size_t gpu = 0; gpu < rails.size(); ++gpu) {
    all.push_back({sum_of_shares(decision, rails, gpu), sum_of_shares(decision, used, gpu)});
  }
  return all;
}

bool loses_bandwidth(const RailDecision& decision, size_t gpu) {
  const std::vector<GpuBandwidth> all = gpu_bandwidths(decision);
  if (all[gpu].by_nccl >= all[gpu].by_rails - kSmallestLoss) return false;
  double least = all[gpu].by_rails;
  for (size_t one : sharing_gpus(decision, gpu)) least = std::min(least, all[one].by_rails);
  return all[gpu].by_nccl < least - kSmallestLoss || has_idle_rail(decision, gpu);
}

bool keeps_bandwidth(const RailDecision& decision, const RailDecision& changed) {
  GpuBandwidth before, after;
  for (const GpuBandwidth& one : gpu_bandwidths(decision)) {
    before.by_rails += one.by_rails;
    before.by_nccl += one.by_nccl;
  }
  for (const GpuBandwidth& one : gpu_bandwidths(changed)) after.by_nccl += one.by_nccl;
  return after.by_nccl >= std::min(before.by_rails, before.by_nccl) - kSmallestLoss;
}

}  // namespace gdr::topology

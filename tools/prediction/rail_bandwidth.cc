#include <algorithm>

#include "tools/prediction/rail_agreement.h"

namespace gdr::topology {
namespace {

constexpr double kSmallestLoss = 1e-6;  // sums of fractions are not exact

bool has(const std::vector<size_t>& list, size_t one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

bool has_common(const std::vector<size_t>& a, const std::vector<size_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](size_t one) { return has(b, one); });
}

// Returns the number of GPUs by device.
std::vector<size_t> count_users(const std::vector<std::vector<size_t>>& devices_by_gpu,
                                size_t devices) {
  std::vector<size_t> users(devices, 0);
  for (size_t device = 0; device < devices; ++device) {
    users[device] = static_cast<size_t>(
        std::count_if(devices_by_gpu.begin(), devices_by_gpu.end(),
                      [&](const std::vector<size_t>& used) { return has(used, device); }));
  }
  return users;
}

}  // namespace

std::vector<size_t> rail_devices(const PredictedRails& decision, size_t gpu) {
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

RailBandwidths::RailBandwidths(const PredictedRails& decision) {
  const nccl::Prediction& prediction = decision.prediction;
  const size_t gpus = decision.machine.gpus.size(), devices = prediction.devices().size();
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    by_rails_.devices.push_back(rail_devices(decision, gpu));
    by_nccl_.devices.push_back(prediction.devices_of_gpu(gpu));
  }
  by_rails_.users = count_users(by_rails_.devices, devices);
  by_nccl_.users = count_users(by_nccl_.devices, devices);
  auto sum_of_shares = [&](const Use& use, size_t gpu) {
    double sum = 0;
    for (size_t device : use.devices[gpu]) {
      sum += bandwidth_of(prediction, gpu, device) / static_cast<double>(use.users[device]);
    }
    return sum;
  };
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    gpus_.push_back({sum_of_shares(by_rails_, gpu), sum_of_shares(by_nccl_, gpu)});
  }
  find_least_of_sharing();
}

void RailBandwidths::find_least_of_sharing() {
  least_.assign(gpus_.size(), -1);
  for (size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    if (least_[gpu] >= 0) continue;  // that of a GPU before it
    const std::vector<size_t> group = sharing_gpus(gpu);
    double least = gpus_[gpu].by_rails;
    for (size_t one : group) least = std::min(least, gpus_[one].by_rails);
    for (size_t one : group) least_[one] = least;
  }
}

GpuBandwidth RailBandwidths::total() const {
  GpuBandwidth sum;
  for (const GpuBandwidth& one : gpus_) {
    sum.by_rails += one.by_rails;
    sum.by_nccl += one.by_nccl;
  }
  return sum;
}

bool RailBandwidths::has_idle_rail(size_t gpu) const {
  return std::any_of(rails(gpu).begin(), rails(gpu).end(),
                     [&](size_t device) { return users_of(device) == 0; });
}

bool RailBandwidths::loses(size_t gpu) const {
  const GpuBandwidth& own = gpus_[gpu];
  if (own.by_nccl >= own.by_rails - kSmallestLoss) return false;
  return own.by_nccl < least_[gpu] - kSmallestLoss || has_idle_rail(gpu);
}

// Returns the GPU and those that share a rail or a device with it, or with one of them.
std::vector<size_t> RailBandwidths::sharing_gpus(size_t gpu) const {
  std::vector<size_t> found = {gpu};
  for (size_t i = 0; i < found.size(); ++i) {
    std::vector<size_t> devices = by_rails_.devices[found[i]];
    const std::vector<size_t>& used = by_nccl_.devices[found[i]];
    devices.insert(devices.end(), used.begin(), used.end());
    for (size_t other = 0; other < gpus_.size(); ++other) {
      if (has(found, other)) continue;
      const bool shares = has_common(devices, by_rails_.devices[other]) ||
                          has_common(devices, by_nccl_.devices[other]);
      if (shares) found.push_back(other);
    }
  }
  return found;
}

bool keeps_bandwidth(const RailBandwidths& before, const RailBandwidths& changed) {
  const GpuBandwidth was = before.total();
  return changed.total().by_nccl >= std::min(was.by_rails, was.by_nccl) - kSmallestLoss;
}

}  // namespace gdr::topology

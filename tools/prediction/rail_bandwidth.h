// How much bandwidth to the network GPUs get from their rails, and from the devices that NCCL uses
// for them.
#pragma once

#include <vector>

#include "tools/prediction/prediction.h"

namespace gdr::topology {

// Returns the devices of the prediction (their indexes) that are the GPU's usable rails, the
// nearest first.
std::vector<size_t> rail_devices(const PredictedRails& decision, size_t gpu);

// Returns the bandwidth between the GPU and the device in the slower direction, in 10^9 bytes per
// second.
double bandwidth_of(const nccl::Prediction& prediction, size_t gpu, size_t device);

// What a GPU gets, in 10^9 bytes per second: the sum over its devices of their bandwidths, each
// divided by the number of GPUs that use the device.
struct GpuBandwidth {
  double by_rails = 0;  // as the plan gives rails to GPUs
  double by_nccl = 0;   // as NCCL uses devices
};

// The devices and bandwidths of all GPUs of a decision, which are computed once. GPUs are indexes
// in Machine::gpus, devices those of the prediction.
class RailBandwidths {
 public:
  explicit RailBandwidths(const PredictedRails& decision);

  // Returns rail_devices().
  const std::vector<size_t>& rails(size_t gpu) const { return by_rails_.devices[gpu]; }
  const GpuBandwidth& of(size_t gpu) const { return gpus_[gpu]; }
  // Returns the sum over all GPUs.
  GpuBandwidth total() const;

  // Returns how many GPUs NCCL uses the device for.
  size_t users_of(size_t device) const { return by_nccl_.users[device]; }
  // Whether NCCL uses one of the GPU's usable rails for no GPU at all.
  bool has_idle_rail(size_t gpu) const;
  // Whether NCCL gives the GPU less than its rails would. What does not come out even, such as four
  // HCAs for three GPUs, can be divided in several ways: a GPU that gets less loses nothing where
  // none of its rails is idle, and where it gets as much as the plan gives to one of the GPUs with
  // which it shares HCAs.
  bool loses(size_t gpu) const;

 private:
  struct Use {
    std::vector<std::vector<size_t>> devices;  // by GPU
    std::vector<size_t> users;                 // the number of GPUs by device
  };

  void find_least_of_sharing();
  std::vector<size_t> sharing_gpus(size_t gpu) const;

  Use by_rails_, by_nccl_;
  std::vector<GpuBandwidth> gpus_;
  std::vector<double> least_;  // the least by_rails of the GPU and those with which it shares HCAs
};

// Whether the GPUs together get as much with `changed`, the machine under another setting, as with
// `before`, or as by the rails of `before` where NCCL gives more than these.
bool keeps_bandwidth(const RailBandwidths& before, const RailBandwidths& changed);

}  // namespace gdr::topology

// How much bandwidth to the network GPUs get from their rails, and from the devices that NCCL uses
// for them.
#pragma once

#include <vector>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

// Returns the devices of the prediction (their indexes) that are the GPU's usable rails, the
// nearest first.
std::vector<size_t> rail_devices(const RailDecision& decision, size_t gpu);

// Returns the bandwidth between the GPU and the device in the slower direction, in 10^9 bytes per
// second.
double bandwidth_of(const nccl::Prediction& prediction, size_t gpu, size_t device);

// Returns how many GPUs NCCL uses the device for.
size_t users_of(const RailDecision& decision, size_t device);

// Whether NCCL uses one of the GPU's usable rails for no GPU at all.
bool has_idle_rail(const RailDecision& decision, size_t gpu);

// What a GPU gets, in 10^9 bytes per second: the sum over its devices of their bandwidths, each
// divided by the number of GPUs that use the device.
struct GpuBandwidth {
  double by_rails = 0;  // as the plan gives rails to GPUs
  double by_nccl = 0;   // as NCCL uses devices
};

// Returns what each GPU gets (parallel to Machine::gpus).
std::vector<GpuBandwidth> gpu_bandwidths(const RailDecision& decision);

// Whether NCCL gives the GPU less than its rails would. What does not come out even, such as four
// HCAs for three GPUs, can be divided in several ways: a GPU that gets less loses nothing where
// none of its rails is idle, and where it gets as much as the plan gives to one of the GPUs with
// which it shares HCAs.
bool loses_bandwidth(const RailDecision& decision, size_t gpu);

// Whether the GPUs together get as much with `changed`, the machine under another setting, as with
// `decision`, or as by the rails of `decision` where NCCL gives more than these.
bool keeps_bandwidth(const RailDecision& decision, const RailDecision& changed);

}  // namespace gdr::topology

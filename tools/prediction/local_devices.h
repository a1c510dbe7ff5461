// Which network devices NCCL takes to be a GPU's, and which GPU a network device's
// (ncclTopoGetLocal, ncclTopoGetLocalNet and ncclTopoGetLocalGpu in its src/graph/topo.cc).
#pragma once

#include <vector>

#include "tools/prediction/paths.h"
#include "tools/prediction/settings.h"

namespace gdr::topology::nccl {

class LocalDevices {
 public:
  // `paths` may change afterwards; invalidate() has to be called for each that does.
  LocalDevices(const Machine& machine, const Graph& graph, const Paths& paths, const Rules& rules,
               const NetDevicesPolicy& policy);

  // The CPU (a node) that NCCL takes for the GPU's own.
  int local_cpu(int gpu) const;
  // The devices (nodes) to which the GPU's path is fastest, and of these the nearest. NCCL calls
  // them the GPU's local nets.
  std::vector<int> fastest_devices(int gpu) const;
  // The devices (nodes) that the GPU uses: channel c uses element c modulo the size.
  const std::vector<int>& devices_of_gpu(int gpu);
  // The GPU (a node) that the device belongs to; -1: none.
  int local_gpu(int device);

  // NVML's number of the GPU.
  int gpu_number(int gpu) const;

  // Drops what was computed from the paths between the two.
  void invalidate(int gpu, int device);

 private:
  struct GpuDevices {
    bool known = false;
    int nearest = -1;          // the first of the nearest devices, whose GPUs were counted
    std::vector<int> devices;  // by channel, modulo their number
  };

  std::vector<int> nearest(int from, const std::vector<int>& candidates) const;
  std::vector<int> compute_devices(int gpu, GpuDevices* used) const;
  size_t first_device(int gpu, size_t devices, size_t gpus) const;
  GpuDevices& used(int gpu) { return used_[static_cast<size_t>(gpu)]; }

  const Machine& machine_;
  const Graph& graph_;
  const Paths& paths_;
  const Rules& rules_;
  const NetDevicesPolicy policy_;
  std::vector<GpuDevices> used_;  // by node
};

}  // namespace gdr::topology::nccl

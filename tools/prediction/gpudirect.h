// Whether NCCL uses GPUDirect RDMA between a GPU and a network device (ncclTopoCheckGdr in its
// src/graph/paths.cc), and the words for it.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/graph.h"
#include "tools/prediction/settings.h"

namespace gdr::topology::nccl {

enum class Direction {
  kSend,     // the HCA reads GPU memory
  kReceive,  // the HCA writes GPU memory
};

// A decision, with what it was made from.
struct GdrCheck {
  enum class Why { kDevice, kGpu, kPartition, kReadOff, kOldGpu, kNoRoute, kDistance };
  Why why = Why::kDistance;
  bool direct = false;
  bool over_pcie = false;                // direct, by a mapping over PCIe although the GPU has C2C
  bool as_c2c = false;                   // the distance counts as C2C
  bool c2c_gpu = false;                  // the GPU reaches its CPU over C2C
  PathClass distance = PathClass::kSys;  // what is compared with the level
  int through_gpu = -1;  // by PXN, the GPU whose distance it is (index in Machine::gpus); else -1
};

// Which network devices NCCL takes to be a GPU's, and which GPU a network device's
// (ncclTopoGetLocal, ncclTopoGetLocalNet and ncclTopoGetLocalGpu in its src/graph/topo.cc).
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

class GpuDirect {
 public:
  GpuDirect(const Machine& machine, const std::vector<PortRef>& devices, const Graph& graph,
            const Paths& paths, const LocalDevices& local_devices, const Rules& rules,
            const Settings& settings);

  // `gpu` and `device` are nodes of the graph.
  GdrCheck check(int gpu, int device, Direction direction) const;

  // Returns the GPU (a node) over which the PXN path from `gpu` to `device` leads; -1: NCCL does
  // not find it, and fails.
  int intermediate_gpu(int gpu, int device) const;

 private:
  const Gpu& gpu_at(int node) const;
  int first_rank_of(int dev) const;
  bool may_read(int gpu, GdrCheck* check) const;
  void compare(int gpu, GdrCheck* check) const;

  const Machine& machine_;
  const std::vector<PortRef>& devices_;
  const Graph& graph_;
  const Paths& paths_;
  const LocalDevices& local_devices_;
  const Rules& rules_;
  const Settings& settings_;
};

// Returns the reason in words, for people: "PIX is within PXB, ...".
std::string reason_for(const GdrCheck& check, const std::string& device, bool from_file,
                       const Rules& rules, const Settings& settings);

}  // namespace gdr::topology::nccl

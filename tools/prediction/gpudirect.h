// Whether NCCL uses GPUDirect RDMA between a GPU and a network device (ncclTopoCheckGdr in its
// src/graph/paths.cc), and the words for it.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/local_devices.h"

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

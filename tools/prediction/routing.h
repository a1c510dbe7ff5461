// Turns the paths through the machine into NCCL's routes: over the CPU where GPUs do not reach each
// other directly or GPUDirect is not used, over NVLink-C2C, and over another GPU (PXN). See
// ncclTopoComputePaths in NCCL's src/graph/paths.cc.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/gpudirect.h"

namespace gdr::topology::nccl {

class Routing {
 public:
  Routing(const Machine& machine, const std::vector<PortRef>& devices, const Graph& graph,
          const Rules& rules, const Settings& settings);

  Routing(const Routing&) = delete;
  Routing& operator=(const Routing&) = delete;

  const Paths& paths() const { return paths_; }
  LocalDevices& local_devices() { return local_devices_; }
  // Returns NCCL's decision with the final routes. Where that is "too far", the distance is that
  // from before the path was diverted over the CPU for this reason.
  GdrCheck check(int gpu, int device, Direction direction) const;
  // The GPU (a node) over which a PXN path leads; -1: unknown, and NCCL fails.
  int intermediate_gpu(int gpu, int device) const {
    return gpu_direct_.intermediate_gpu(gpu, device);
  }
  const std::string& failure() const { return failure_; }

 private:
  void divert_gpus();
  void mark_p2c();
  void mark_p2c(int gpu, int device);
  void route_to_devices();
  void try_pxn(int gpu, int device);
  bool intermediate_is_near(int intermediate, int device) const;
  void divert_without_gpudirect(int gpu, int device);
  bool reaches_directly(int from, int to, PathClass level) const;
  PathClass p2p_level() const;
  size_t pair(int gpu, int device) const;
  void fail_without_intermediate(int gpu, int device);
  void fail(const std::string& why);

  const Machine& machine_;
  const Graph& graph_;
  const Rules& rules_;
  const Settings& settings_;
  Paths paths_;
  LocalDevices local_devices_;
  GpuDirect gpu_direct_;
  std::string failure_;
  std::vector<GdrCheck> before_;  // by pair: whether it receives directly before it is diverted
};

}  // namespace gdr::topology::nccl

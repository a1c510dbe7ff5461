// Logs, once each, where NCCL uses rails otherwise than the machine suggests: a GPU with an HCA
// without GPUDirect between them, and a connection whose ends are on different rails.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/live/rail_decision.h"

namespace gdr::plugin {

struct RailWarningOptions {
  bool strict = false;           // GDR_NCCL_STRICT: no GPUDirect is an error
  bool warn_cross_rail = false;  // NCCL_IB_WARN_RAIL_LOCAL: different rails are logged at WARN
  bool relays = true;            // NCCL may send over another GPU (PXN)
};

// Thread-safe.
class RailWarnings {
 public:
  // Returns why a device registers no GPU memory, and what to do about it.
  using WhyNotDirect = std::function<std::string(int device)>;

  // `decision` has to outlive this object; ports[i] is the port of device i.
  RailWarnings(const topology::RailDecision& decision, std::vector<topology::PortRef> ports,
               RailWarningOptions options, WhyNotDirect why_not_direct);

  // NCCL sets up a connection over `device` for `gpu`, an index in Machine::gpus, or -1 where the
  // GPU is unknown. Logs where there is no GPUDirect between them. Fails, with GDR_NCCL_STRICT=1,
  // unless distance is the reason: NCCL also tries devices that it will not use for the GPU.
  Status check_device(int device, int gpu);

  // A connection carries data between rails of these numbers; -1: unknown. Logs where they differ:
  // on a rail-optimised fabric, rails meet only in the spine switches or not at all.
  void check_rails(int here, int there, const std::string& connection);

 private:
  bool log_once(const std::string& key);

  const topology::RailDecision& decision_;
  std::vector<topology::PortRef> ports_;
  RailWarningOptions options_;
  WhyNotDirect why_not_direct_;
  std::mutex mutex_;  // guards logged_
  std::set<std::string> logged_;
};

}  // namespace gdr::plugin

// What NCCL core will decide on a machine, computed in advance from the rules of its src/graph: the
// route between every GPU and every network device, the device that a GPU uses in each channel, and
// whether a transfer uses GPUDirect RDMA.
//
// All GPUs of the machine are taken to be in the job, one process each, in the order of
// Machine::gpus. Network devices are those that the plugin offers, in the order of their numbers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/prediction/gpudirect.h"
#include "tools/prediction/rules.h"
#include "tools/prediction/settings.h"
#include "topology/live/rail_decision.h"
#include "topology/ports.h"

namespace gdr::topology::nccl {

class Routing;

// The route between two devices as NCCL computes it: over the CPU where NCCL sends data through
// host memory, although there may be a nearer one.
struct Route {
  PathClass path = PathClass::kSys;
  bool exists = false;   // false: NCCL finds no route, and the other fields mean nothing
  double gb_per_s = 0;   // bandwidth of the slowest link, in 10^9 bytes per second
  int hops = 0;          // links
  int through_gpu = -1;  // kPxn: the GPU over which data goes; else -1
};

// Whether NCCL will use GPUDirect RDMA, and why.
struct Verdict {
  bool direct = false;
  bool too_far = false;    // not direct because of the distance, and only because of it
  bool over_pcie = false;  // direct, and NCCL asks for a mapping over PCIe instead of NVLink-C2C
  std::string reason;      // "PIX is within PXB", "SYS is beyond NCCL_NET_GDR_LEVEL=PXB", ...
  // The class that NCCL compares with the level: with PXN, that of the other GPU. Where `too_far`
  // is set, it is the nearest NCCL_NET_GDR_LEVEL that allows GPUDirect.
  PathClass distance = PathClass::kSys;
};

// Returns "yes: " or "no: " and the reason.
std::string to_string(const Verdict& verdict);

struct Verdicts {
  Verdict send;
  Verdict receive;
};

class Prediction {
 public:
  // Predicts nothing: there are no network devices.
  Prediction() = default;
  // `devices` are ports of the machine; device i is the one that NCCL numbers i.
  Prediction(const Machine& machine, std::vector<PortRef> devices, const Settings& settings);

  const Settings& settings() const { return settings_; }
  const std::vector<PortRef>& devices() const { return devices_; }
  // Returns the first device on the HCA (an index in Machine::hcas); -1: it offers none.
  int device_of(size_t hca) const;

  // Returns why NCCL of this release fails on the machine, in NCCL's words; "" where it does not.
  // The other functions then describe what it had computed up to there.
  const std::string& failure() const { return failure_; }
  // Returns what the source does not state and was assumed, a sentence each: "The speed of PCIe
  // links is unknown and taken to be equal."
  const std::vector<std::string>& assumptions() const { return assumptions_; }

  const Route& gpu_to_gpu(size_t from, size_t to) const { return gpu_gpu_[from * gpus_ + to]; }
  // Sending: over another GPU where the path is kPxn.
  const Route& gpu_to_device(size_t gpu, size_t device) const {
    return to_device_[gpu * devices_.size() + device];
  }
  // Receiving: never over another GPU.
  const Route& device_to_gpu(size_t device, size_t gpu) const {
    return from_device_[gpu * devices_.size() + device];
  }

  // Returns the GPU that NCCL counts as the device's own, over which other GPUs reach it by PXN;
  // -1: no GPU.
  int local_gpu(size_t device) const { return local_gpus_[device]; }

  // Returns the devices that NCCL uses for the GPU: channel c uses element c modulo the size. Empty
  // where there are no devices. Collectives start from this order, and their rings may deviate.
  const std::vector<size_t>& devices_of_gpu(size_t gpu) const { return used_[gpu]; }

  Verdict verdict(size_t gpu, size_t device, Direction direction) const;
  Verdicts verdicts(size_t gpu, size_t device) const;

 private:
  struct Checks {
    GdrCheck send;
    GdrCheck receive;
  };

  void take_routes(const Graph& graph, Routing* routing);
  void take_gpu(const Graph& graph, int gpu, Routing* routing);
  void take_device(const Graph& graph, int device, Routing* routing);

  Settings settings_;
  Rules rules_;
  std::vector<PortRef> devices_;
  size_t gpus_ = 0;
  bool from_file_ = false;
  std::string failure_;
  std::vector<std::string> assumptions_;
  std::vector<Route> gpu_gpu_;
  std::vector<Route> to_device_;
  std::vector<Route> from_device_;
  std::vector<int> local_gpus_;
  std::vector<std::vector<size_t>> used_;
  std::vector<Checks> checks_;
  std::vector<std::string> device_names_;
};

}  // namespace gdr::topology::nccl

namespace gdr::topology {

// The rails of a machine, as the plugin decides them, with what NCCL will choose among them.
struct PredictedRails : RailDecision {
  nccl::Prediction prediction;  // device i is the i-th usable rail
};

// Adds the prediction to a decision, whose level becomes that of the settings.
PredictedRails predict(RailDecision decision, const nccl::Settings& settings);

// Returns NCCL's prediction for the usable rails of a plan, in their order.
nccl::Prediction predict(const Machine& machine, const RailPlan& plan,
                         const nccl::Settings& settings);

// Returns the class of the path between a GPU and an HCA: that of the machine or, where NCCL goes
// over NVLink-C2C and PCIe, kP2c.
PathClass path_between(const PredictedRails& decision, size_t gpu, size_t hca);

// Returns NCCL's verdicts on a GPU and an HCA. NCCL does not see an HCA that carries no usable
// rail, so both are "no" for it.
nccl::Verdicts verdicts_between(const PredictedRails& decision, size_t gpu, size_t hca);

}  // namespace gdr::topology

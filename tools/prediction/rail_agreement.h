// Where NCCL will use other HCAs for a GPU than its rails, why, and what makes it follow them.
#pragma once

#include <string>
#include <vector>

#include "tools/prediction/prediction.h"

namespace gdr::topology {

struct Disagreement {
  size_t gpu = 0;               // index in Machine::gpus
  std::vector<PortRef> rails;   // the GPU's usable rails
  std::vector<PortRef> chosen;  // what NCCL uses, in the order of channels
  // "NCCL prefers bandwidth to distance: ..."; a part of a sentence. It says where GPUDirect is
  // lost or won.
  std::string reason;
  // NCCL's choice is as near as the rail (without GPUDirect RDMA: below the same CPU) and as fast
  // in both directions, has GPUDirect RDMA where the rail has, is no more crowded while the rail is
  // idle, and gives the GPU as much bandwidth in all (see RailBandwidths). Nothing has to be done
  // then.
  bool as_good = false;
  // The first of remedies() with which NCCL serves every GPU well and, where `as_good`, uses
  // exactly this GPU's rails; "": none is known. "set NCCL_NETDEVS_POLICY=ALL"
  std::string fix;
};

// A setting that may make NCCL follow the rails, and what it would then do.
struct Remedy {
  std::string text;         // "set NCCL_NETDEVS_POLICY=ALL"
  PredictedRails decision;  // but for the prediction, that of the machine as it is
};

// Returns the settings to try, the simplest first. Left out is what would take bandwidth from the
// GPUs together (see keeps_bandwidth()), and a generated topology file by which
// NCCL would use GPUDirect RDMA with rails that are beyond the level.
std::vector<Remedy> remedies(const PredictedRails& decision);

// Returns the GPUs for which NCCL uses other HCAs than the rails, or not all of them. GPUs without
// a usable rail are left out.
std::vector<Disagreement> disagreements(const PredictedRails& decision);

// Returns a sentence for each GPU that NCCL serves worse, then one for the others for which it uses
// only some of their rails, and one for the rest: "GPU0, GPU2: NCCL uses other HCAs than the rails,
// which are as near and as fast". The sentences of an empty list are none.
std::vector<std::string> sentences(const Machine& machine, const std::vector<Disagreement>& list);

// Returns "GPU4: NCCL uses mlx5_8:1 where the rail is mlx5_4:1, as NCCL prefers ...", without fix.
std::string to_string(const Machine& machine, const Disagreement& one);

// How much bandwidth to the network GPUs get from their rails, and from the devices that NCCL uses
// for them.

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

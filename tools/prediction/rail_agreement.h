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
  // idle, and gives the GPU as much bandwidth in all (see rail_bandwidth.h). Nothing has to be done
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
// GPUs together (see keeps_bandwidth() in rail_bandwidth.h), and a generated topology file by which
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

}  // namespace gdr::topology

// Whether NCCL may use GPUDirect RDMA between a GPU and an HCA, by what the hardware can do and by
// their distance alone. What NCCL chooses is not predicted here.
#pragma once

#include <string>

#include "topology/live/rail_decision.h"

namespace gdr::topology {

struct GdrVerdict {
  bool direct = false;
  bool too_far = false;  // not direct because of the distance, and only because of it
  std::string reason;    // "PIX is within NCCL_NET_GDR_LEVEL=PXB", ...
  // The class that is compared with the level. Where `too_far` is set, it is the nearest
  // NCCL_NET_GDR_LEVEL that allows GPUDirect.
  PathClass distance = PathClass::kSys;
};

// Indexes are those of Machine::gpus and Machine::hcas. Without NCCL_NET_GDR_LEVEL the level is
// P2C, as in NCCL 2.29 and later: but for GPUs with NVLink-C2C that is the same as PXB.
GdrVerdict gdr_verdict(const RailDecision& decision, size_t gpu, size_t hca);

}  // namespace gdr::topology

// What NCCL core will do, in words: the devices that it uses for a GPU, and by which rules.
// tools/prediction/rail_agreement.h has where they are not the GPU's rails.
#pragma once

#include <string>

#include "tools/topo/labels.h"

namespace gdr::tools::topo {

// Returns the devices that NCCL uses for a GPU, in the order of its channels, and the GPU over
// which it reaches one by PXN: "mlx5_0:1, mlx5_1:1 over GPU4"; "none".
std::string choice_text(const RailDecision& decision, size_t gpu);

// Returns a value of NCCL_NETDEVS_POLICY: "AUTO", "ALL" or "MAX:2".
std::string policy_text(const topology::nccl::NetDevicesPolicy& policy);

// Returns the release and the settings that differ from its defaults: "NCCL 2.30.7,
// NCCL_NET_GDR_LEVEL=PXB".
std::string release_text(const topology::nccl::Settings& settings);

}  // namespace gdr::tools::topo

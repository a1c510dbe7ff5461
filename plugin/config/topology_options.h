// The user's options and the verbs library's devices in the terms of topology/, which knows
// neither, and the options of the devices' discovery. The plugin and `nccl-gdr topo` share this, so
// that the tool shows what the plugin would decide.
#pragma once

#include <vector>

#include "plugin/config/options.h"
#include "plugin/discovery/discovery.h"
#include "topology/live/rail_decision.h"
#include "topology/live/read_machine.h"
#include "topology/live/verbs_ports.h"

namespace gdr::config {

// Returns the registration paths for GPU memory that the user leaves open: GDR_NCCL_GPU_MEMORY,
// less dma-buf where NCCL_DMABUF_ENABLE=0.
transport::RegistrationPaths allowed_paths(const Options& options);

// table_can_flush: NCCL can be asked to flush after each receive, from v9 of its table on. Data
// Direct needs that, or that NCCL does it anyway.
discovery::DiscoveryOptions discovery_options(const Options& options, bool table_can_flush);

// Returns what counts as a GPU: those of NVIDIA and AMD and, in builds with tests, display
// controllers of the PCI vendor that GDR_TEST_GPU_VENDOR names, for machines without GPUs.
topology::Selection gpu_selection();

topology::ReadOptions read_options(const Options& options);

// Names the ports of `machine` that NCCL_IB_HCA names in full, which are rails whatever their speed
// and distance. A prefix such as "mlx5" names none of them.
topology::DecisionOptions decision_options(const Options& options,
                                           const topology::Machine& machine);

// Returns the discovered ports: discovery.devices first, in their order, then the inactive ports.
// `allowed` decides VerbsPort::gpudirect.
std::vector<topology::VerbsPort> verbs_ports(const discovery::Discovery& discovery,
                                             const transport::RegistrationPaths& allowed);

}  // namespace gdr::config

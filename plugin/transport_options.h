// The user's environment as the transport's options.
#pragma once

#include "base/result.h"
#include "plugin/config/options.h"
#include "topology/model.h"
#include "transport/options.h"

namespace gdr::plugin {

// Chooses the network interface of the handshake, which is what can fail.
Result<transport::TransportOptions> make_transport_options(const config::Options& options);

// Returns whether processes of this machine may send for each other. NCCL does so between GPUs that
// are connected by NVLink (src/graph/paths.cc, "PXN").
bool may_relay(const config::Options& options, const topology::Machine& machine);

}  // namespace gdr::plugin

// The choice of a device in the peer's subnet: NCCL_IB_SUBNET_AWARE_ROUTING.
#pragma once

#include <span>
#include <vector>

#include "transport/device/hca.h"
#include "transport/options.h"
#include "transport/pairs/pair_plan.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// Returns the GID that a RoCE device has at the moment, for the handle of a listener on it; null on
// InfiniBand, whose subnets are connected by routers or not at all, and where it cannot be
// resolved.
wire::Gid subnet_gid(const Device& device, const ConnectionOptions& options);

// Returns the devices of a choice. NCCL was offered every device of the list: where it chose a
// single one that shares no subnet with a peer that has these GIDs, the first that does takes its
// place, if the option is set. The devices of several rails stay as they were chosen.
EndRails choose_rails(const std::vector<Device>& devices, RailChoice choice,
                      std::span<const wire::Gid> peer, const TransportOptions& options);

}  // namespace gdr::transport

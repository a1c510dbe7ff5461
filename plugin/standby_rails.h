// Decides which other rails carry the connections of a device after its own rail has failed. Pure
// functions; the transport connects these rails together with the device's own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plugin/net_devices.h"
#include "topology/live/rail_decision.h"

namespace gdr::plugin {

// The standby rails of one device.
struct StandbyRails {
  std::vector<size_t> devices;  // the first choice first
  // If empty: why the next device in order does not stand by.
  std::string why_none;
};

// Chooses for each device up to `most` standby rails among the others; devices[i] is the
// i-th usable rail. A standby rail
// - has an address of the kind that the device's has, and the device's link layer and registration
//   paths for GPU memory, since a connection
//   registers memory on all of its rails by the same path; and both or neither use Data Direct,
//   since NCCL flushes what a device receives by that device's property;
// - is within NCCL_NET_GDR_LEVEL of every GPU that may use the device with GPUDirect: its GPUs by
//   the plan, and those to which it is nearest, or which are nearest to it. A GPU that goes through
//   host memory sets no bound, nor do positions that are unknown (a machine without GPUs, an HCA on
//   no PCI function).
// Among these the first choice is the nearest to the GPUs, then one of the same plane, then one on
// another card, then the next in the order of devices: so that the devices of a switch take each
// other, and all machines of a kind choose alike.
std::vector<StandbyRails> choose_standby_rails(const topology::RailDecision& decision,
                                               const std::vector<DeviceFacts>& devices,
                                               size_t most);

// Returns a line for the log: "failover [0] mlx5_0:1 to mlx5_1:1", "failover [0] mlx5_0:1 to no
// other rail: mlx5_1:1 is RoCE".
std::string describe_standby(const std::vector<DeviceFacts>& devices, size_t device,
                             const StandbyRails& standby);

}  // namespace gdr::plugin

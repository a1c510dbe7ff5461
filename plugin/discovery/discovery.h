// Which ports of the machine's HCAs the plugin may use, and why it does not use the others.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/finding.h"
#include "base/result.h"
#include "plugin/discovery/hca_filter.h"
#include "transport/device/gid_selection.h"
#include "transport/device/hca.h"

namespace gdr::discovery {

using transport::Device;
using transport::Gid;

// A port that is not offered, or an HCA that cannot be opened.
struct SkippedPort {
  FindingKind kind;
  std::string port;    // "mlx5_0:1"; "" for an HCA
  std::string reason;  // "is excluded by NCCL_IB_HCA", behind the port's name
  bool operator==(const SkippedPort&) const = default;
};
std::string to_string(const SkippedPort& skipped);  // "mlx5_0:1 is excluded by NCCL_IB_HCA"

// Returns why the transport cannot use a port of this kind, and what can, to follow the port's name
// in a log line: "is an iWARP device, ...". "" for a port that it can use: it needs reliable
// connections (RC) between queue pairs that it connects itself, over InfiniBand or RoCE.
//
// Most iWARP devices connect only by the RDMA connection manager. But some have queue pairs that
// connect as those of RoCE do: Alibaba's eRDMA in its compatible mode. Nothing in the verbs library
// distinguishes them, so that the user does: a port with an Ethernet link is used if it is `named`
// in NCCL_IB_HCA. NCCL's net_ib, which reads only the link layer, uses them all
// (src/transport/net_ib).
std::string exclusion_reason(ibv_transport_type transport, uint8_t link_layer, bool named);

// What is reported to NCCL where a port's speed is unknown: NCCL assumes it, too, for a speed of 0
// (src/graph/topo.cc).
inline constexpr int kAssumedSpeedMbps = 10000;

// Returns the port's speed in Mb/s; 0 if it is unknown. It is the one of ibv_query_port_speed, over
// all bonded ports, where the library, the kernel and the driver have that; left out if
// use_query_port_speed is false (NCCL_IB_QUERY_PORT_SPEED=0). Else it is the file ports/N/rate in
// sysfs: ibv_port_attr has the same, but every speed above NDR as NDR, since active_speed has 8
// bits (Linux drivers/infiniband/core/uverbs_cmd.c).
int port_speed_mbps(const verbs::Api& api, ibv_context* context, int port,
                    bool use_query_port_speed);

// What the user asked of the discovery; the variable that sets each field is named.
struct DiscoveryOptions {
  HcaFilter hcas;                // NCCL_IB_HCA
  bool query_port_speed = true;  // NCCL_IB_QUERY_PORT_SPEED
  // NCCL_IB_DATA_DIRECT, and NCCL flushes on every GPU: it is used where an HCA has it.
  bool data_direct = false;
};

// What discover_devices() found.
struct Discovery {
  std::vector<Device> devices;   // active ports that the filter accepts, as the library lists them
  std::vector<Device> inactive;  // ports that it accepts, but that are not active
  std::vector<SkippedPort> skipped;  // each other port
  Findings findings;                 // about `devices`, and entries of the filter without a port
};

// The text of the error where no port is left to offer: why each is not, and what the user can do.
std::string no_device_text(const std::vector<SkippedPort>& skipped);

// Opens all HCAs of the machine and sorts their ports. An HCA that cannot be opened, or a port that
// the transport cannot use (exclusion_reason()), is only listed in `skipped`; only a failure to
// list the HCAs is an error.
Result<Discovery> discover_devices(const std::shared_ptr<const verbs::Api>& api,
                                   const DiscoveryOptions& options);

// Returns a warning for each GID that several RoCE ports have, which are given by their labels: two
// ports of a machine cannot share an address, as those of a bond over two HCAs do.
Findings same_gids(const std::vector<std::pair<std::string, Gid>>& ports);

}  // namespace gdr::discovery

// A port of an HCA: its state and speed, and the GID that it has at the moment.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/device/gid_selection.h"

namespace gdr::transport {

// What every HCA of InfiniBand and RoCE accepts in one message: 1 GiB is the limit of mlx4 and
// mlx5; the specification's is 2 GiB.
inline constexpr uint32_t kDefaultMessageBytes = 1u << 30;

// The parts of ibv_port_attr that the transport uses.
struct PortState {
  bool active = false;        // IBV_PORT_ACTIVE
  bool ethernet = false;      // the link layer: true for RoCE, false for InfiniBand
  bool grh_required = false;  // IBV_QPF_GRH_REQUIRED: every packet needs a GRH, as on virtual ports
  uint16_t lid = 0;           // 0 on RoCE
  ibv_mtu mtu = IBV_MTU_1024;  // the active one
  int speed_mbps = 0;          // Mb/s of all lanes together; 0: unknown
  // The largest message of one work request (max_msg_sz); kDefaultMessageBytes where the driver
  // reports 0.
  uint32_t max_message_bytes = 0;
};

// Queries port number `port`, which counts from 1. kSystem if the query fails.
Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port);

// Reads the port's GID table and selects the GID to use: select_gid() on RoCE; on InfiniBand the
// one at routable_index if the table has that index and the GID carries an FLID, else the one at
// index 0. Call it for every connection: entries move within the table when a link goes down and
// comes back.
Result<GidEntry> resolve_gid(const verbs::Api& api, ibv_context* context, int port,
                             const GidPreference& preference);

// Returns the speed of a link in Mb/s from ibv_port_attr's codes active_speed and active_width. 0
// if either code is unknown. link_speed_mbps(32, 2) is 100000: EDR with 4 lanes.
int link_speed_mbps(unsigned active_speed, unsigned active_width);

}  // namespace gdr::transport

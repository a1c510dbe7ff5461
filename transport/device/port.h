// A port of an HCA and its state.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

// What every HCA of InfiniBand and RoCE accepts in one message: 1 GiB is the limit of mlx4 and
// mlx5; the specification's is 2 GiB.
inline constexpr uint32_t kDefaultMessageBytes = 1u << 30;

// The parts of ibv_port_attr that the transport uses.
struct PortState {
  bool active = false;        // IBV_PORT_ACTIVE
  uint8_t link_layer = 0;     // IBV_LINK_LAYER_*
  bool ethernet = false;      // the link layer: true for RoCE, false for InfiniBand
  bool grh_required = false;  // IBV_QPF_GRH_REQUIRED: every packet needs a GRH, as on virtual ports
  int gid_table_length = 0;   // entries of its GID table, used or not
  uint16_t lid = 0;           // 0 on RoCE
  ibv_mtu mtu = IBV_MTU_1024;  // the active one
  // The largest message of one work request (max_msg_sz); kDefaultMessageBytes where the driver
  // reports 0.
  uint32_t max_message_bytes = 0;
};

// Queries port number `port`, which counts from 1. kSystem if the query fails.
Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port);

}  // namespace gdr::transport

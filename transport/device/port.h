// One port of one HCA: what it is, and the address it has right now.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "drivers/verbs/verbs_api.h"
#include "transport/device/gid_selection.h"

namespace gdr::transport {

struct PortState {
  bool active = false;
  bool ethernet = false;  // RoCE; else InfiniBand
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  int speed_mbps = 0;  // all lanes
};

Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port);

// The GID this port should use, looked up afresh: addresses move when links flap.
Result<GidEntry> resolve_gid(const verbs::Api& api, ibv_context* context, int port,
                             const GidPreference& preference);

// Speed of a link in Mb/s from ibv_port_attr's active_speed and active_width codes; 0 if unknown.
int link_speed_mbps(unsigned active_speed, unsigned active_width);

}  // namespace gdr::transport

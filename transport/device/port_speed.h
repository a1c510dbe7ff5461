// The speed of a port, which NCCL plans its channels by.
#pragma once

#include <cstdint>
#include <string_view>

#include "drivers/verbs/verbs_api.h"

namespace gdr::transport {

// What is reported to NCCL where a port's speed is unknown: NCCL assumes it, too, for a speed of 0
// (src/graph/topo.cc).
inline constexpr int kAssumedSpeedMbps = 10000;

// Returns the port's speed in Mb/s, over all lanes and, where the library can report it, all bonded
// ports; 0 if it is unknown. The first of these that has an answer:
//  1. ibv_query_port_speed, the effective speed; left out if use_query_port_speed is false
//     (NCCL_IB_QUERY_PORT_SPEED=0);
//  2. ibv_port_attr's active_speed and active_width, but for NDR: the field has 8 bits, so the
//     kernel reports every faster link as NDR (Linux drivers/infiniband/core/uverbs_cmd.c);
//  3. the file ports/N/rate in sysfs; for NDR the greater of it and 2.
int port_speed_mbps(const verbs::Api& api, ibv_context* context, int port,
                    bool use_query_port_speed);

// Returns the speed of a link in Mb/s from ibv_port_attr's codes active_speed and
// active_width. 0 if either code is unknown. link_speed_mbps(32, 2) is 100000: EDR with 4
// lanes.
int link_speed_mbps(uint32_t active_speed, unsigned active_width);

// Parses the text of ports/N/rate, such as "2.5 Gb/sec (1X SDR)", into Mb/s; 0 for any other text.
int rate_mbps(std::string_view text);

}  // namespace gdr::transport

// A port of an HCA: its kind, state and speed, and whether ports are active, as the last query
// showed.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

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
  uint16_t lid = 0;           // 0 on RoCE
  ibv_mtu mtu = IBV_MTU_1024;  // the active one
  // The largest message of one work request (max_msg_sz); kDefaultMessageBytes where the driver
  // reports 0.
  uint32_t max_message_bytes = 0;
};

// Queries port number `port`, which counts from 1. kSystem if the query fails.
Result<PortState> query_port_state(const verbs::Api& api, ibv_context* context, int port);

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

// Parses the text of ports/N/rate, such as "2.5 Gb/sec (1X SDR)", into Mb/s; 0 for any other text.
int rate_mbps(std::string_view text);

// Whether the ports of an HCA are active. Each query is a command to the firmware, and all
// connections of a process over a port want to know at the same time when it is down: they share
// what one of them has found out. Thread-safe.
class PortStates {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // For so long an answer counts, unless an event comes.
  static constexpr std::chrono::milliseconds kFresh{1000};

  // Neither is owned.
  PortStates(const verbs::Api& api, ibv_context* context) : api_(api), context_(context) {}

  // Whether a port is active. A port that cannot be queried is not. Blocks for as long as the
  // firmware does not answer, with no lock held.
  bool is_active(int port, Time now);
  // An event has reported a change: what was asked before counts for nothing.
  void drop();

 private:
  struct Answer {
    Time at;
    bool active;
  };

  const verbs::Api& api_;
  ibv_context* context_;
  std::mutex mutex_;  // guards all that follows
  uint64_t drops_ = 0;
  std::map<int, Answer> answers_;  // by port
};

}  // namespace gdr::transport

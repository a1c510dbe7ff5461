// The state of an HCA's port, and whether ports are active, as the last query showed.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

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

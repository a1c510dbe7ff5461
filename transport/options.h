// What a user may choose about the transport. The plugin fills it from the process environment.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "transport/memory/registrar.h"
#include "transport/pairs/connection_options.h"

namespace gdr::transport {

struct TransportOptions {
  ConnectionOptions connection;
  MemoryOptions memory;

  // The network interface of the handshake. Listeners bind to its address and name it in their
  // handles; connectors connect from it.
  std::string interface_name;
  sockaddr_storage bind_address{};
  // NCCL_SOCKET_RETRY_CNT: how often a sender whose connection failed, or was lost before the
  // receiver had answered, connects again.
  int connect_retries = 34;
  // NCCL_SOCKET_RETRY_SLEEP_MSEC: the pause before the first retry; before the n-th it is n times
  // as long.
  std::chrono::milliseconds connect_retry_pause{100};

  // NCCL_IB_SUBNET_AWARE_ROUTING: connections are made from a device in the listener's subnet.
  bool subnet_aware_routing = false;
  int subnet_prefix_bits = 24;  // NCCL_IB_SUBNET_PREFIX_LEN: of IPv4 addresses, 1 to 32

  // GDR_NCCL_WATCHDOG_SEC: seconds without progress after which a connection's state is logged.
  // 0 turns the watchdog off.
  int watchdog_seconds = 60;

  // NCCL_IB_RETURN_ASYNC_EVENTS: fatal events of an HCA fail the connections that they concern.
  bool async_events_fail = true;
};

// The devices of one end of a connection, by index into Transport::devices(). The data goes over
// the active ones; the standby ones take over where those are lost, if both ends recover.
struct RailChoice {
  std::vector<size_t> active;  // not empty
  std::vector<size_t> standby;
};

}  // namespace gdr::transport

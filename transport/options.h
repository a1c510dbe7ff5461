// What a user may choose about the transport. The plugin fills it from the environment; defaults
// are NCCL's.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "transport/device/gid_selection.h"
#include "transport/device/registration_paths.h"

namespace gdr::transport {

struct TransportOptions {
  GidPreference gid;
  uint8_t ack_timeout = 20;  // 4.096 us * 2^n
  uint8_t retry_count = 7;
  uint16_t pkey_index = 0;
  uint8_t service_level = 0;
  uint8_t traffic_class = 0;
  uint8_t clear_to_send_traffic_class = 0;  // of what a receiver sends
  int qps_per_connection = 1;
  bool split_data_on_qps = false;
  std::optional<bool> adaptive_routing;      // unset: on InfiniBand, not on RoCE
  size_t adaptive_routing_threshold = 8192;  // bytes; above, the end is told separately
  bool relaxed_ordering = true;              // where the verbs library can ask for it
  bool flush_disabled = false;
  RegistrationPaths gpu_memory;
  bool strict = false;                     // GPU memory that would be staged is an error
  std::optional<size_t> gpudirect_limit;   // bytes; larger sends are staged
  size_t staging_bytes = size_t{4} << 30;  // the most page-locked memory that staging may take
  int watchdog_seconds = 60;               // 0 is off

  // Address that listeners bind to and name in their handles.
  std::string interface_name;
  sockaddr_storage bind_address{};
};

}  // namespace gdr::transport

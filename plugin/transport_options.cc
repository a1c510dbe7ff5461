#include "plugin/transport_options.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "plugin/config/topology_options.h"
#include "transport/memory/system_facts.h"

namespace gdr::plugin {
namespace {

// -1, where a variable has it, is unset.
std::optional<uint8_t> byte_or_unset(int value) {
  return value < 0 ? std::nullopt : std::optional(static_cast<uint8_t>(value));
}

transport::ConnectionOptions connection_options(const config::Options& options) {
  transport::ConnectionOptions connection;
  connection.gid =
      transport::GidPreference{options.gid_index, options.roce_version, options.address_family,
                               options.address_range, options.routable_gid_index};
  connection.ack_timeout = static_cast<uint8_t>(options.ack_timeout);
  connection.retry_count = static_cast<uint8_t>(options.retry_count);
  connection.modify_retries = options.modify_retries;
  connection.modify_retry_pause = std::chrono::milliseconds(options.modify_retry_pause);
  connection.modify_retry_all = options.modify_retry_all;
  connection.ece = options.ece;
  connection.pkey_index = static_cast<uint16_t>(options.pkey_index);
  connection.service_level = byte_or_unset(options.service_level);
  connection.traffic_class = byte_or_unset(options.traffic_class);
  connection.clear_to_send_traffic_class = byte_or_unset(options.fifo_traffic_class);
  connection.qps_per_connection = options.qps_per_connection;
  connection.split_data_on_qps = options.split_data_on_qps;
  if (options.adaptive_routing != -2) connection.adaptive_routing = options.adaptive_routing != 0;
  // -1 becomes the largest size, as in NCCL, which compares without signs.
  if (options.adaptive_routing_threshold != -2) {
    connection.adaptive_routing_threshold = static_cast<size_t>(options.adaptive_routing_threshold);
  }
  connection.flush_disabled = options.flush_disable;
  connection.failover = options.failover;
  if (!transport::memory_lock_limit()) {
    connection.connections_per_memory_check = std::numeric_limits<int>::max();
  }
  return connection;
}

transport::MemoryOptions memory_options(const config::Options& options) {
  transport::MemoryOptions memory;
  memory.gpu_memory = config::allowed_paths(options);
  memory.relaxed_ordering = options.relaxed_ordering != 0;
  return memory;
}

}  // namespace

Result<transport::TransportOptions> make_transport_options(const config::Options& options) {
  Result<std::vector<config::Interface>> interfaces = config::enumerate_interfaces();
  if (!interfaces) return forward_error(interfaces);
  Result<config::Interface> interface = config::choose_interface(
      *interfaces, config::InterfacePreference{options.socket_interfaces, options.socket_family});
  if (!interface) return forward_error(interface);

  transport::TransportOptions transport;
  transport.connection = connection_options(options);
  transport.memory = memory_options(options);
  transport.interface_name = interface->name;
  transport.bind_address = interface->address;
  transport.connect_retries = options.socket_retries;
  transport.connect_retry_pause = std::chrono::milliseconds(options.socket_retry_pause_ms);
  transport.subnet_aware_routing = options.subnet_aware_routing;
  transport.subnet_prefix_bits = options.subnet_prefix_bits;
  transport.watchdog_seconds = options.watchdog_seconds;
  transport.async_events_fail = options.async_events_fail;
  return transport;
}

bool may_relay(const config::Options& options, const topology::Machine& machine) {
  if (options.pxn_disable || machine.gpus.size() < 2) return false;
  return !machine.gpu_links_known ||
         std::any_of(machine.gpus.begin(), machine.gpus.end(),
                     [](const topology::Gpu& gpu) { return !gpu.nvlinks.empty(); });
}

}  // namespace gdr::plugin

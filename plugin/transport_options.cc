#include "plugin/transport_options.h"

#include <algorithm>

#include "plugin/config/topology_options.h"

namespace gdr::plugin {

Result<transport::TransportOptions> make_transport_options(const config::Options& options) {
  Result<std::vector<transport::Interface>> interfaces = transport::enumerate_interfaces();
  if (!interfaces) return forward_error(interfaces);
  Result<transport::Interface> interface = transport::choose_interface(
      *interfaces,
      transport::InterfacePreference{options.socket_interfaces, options.socket_family});
  if (!interface) return forward_error(interface);

  transport::TransportOptions transport;
  transport.gid = transport::GidPreference{options.gid_index, options.roce_version,
                                           options.address_family, options.address_range};
  transport.ack_timeout = static_cast<uint8_t>(options.ack_timeout);
  transport.retry_count = static_cast<uint8_t>(options.retry_count);
  transport.pkey_index = static_cast<uint16_t>(options.pkey_index);
  transport.service_level = static_cast<uint8_t>(std::max(options.service_level, 0));
  transport.traffic_class = static_cast<uint8_t>(std::max(options.traffic_class, 0));
  transport.clear_to_send_traffic_class = options.fifo_traffic_class >= 0
                                              ? static_cast<uint8_t>(options.fifo_traffic_class)
                                              : transport.traffic_class;
  transport.qps_per_connection = options.qps_per_connection;
  transport.split_data_on_qps = options.split_data_on_qps;
  if (options.adaptive_routing != -2) transport.adaptive_routing = options.adaptive_routing != 0;
  transport.adaptive_routing_threshold = static_cast<size_t>(options.adaptive_routing_threshold);
  transport.relaxed_ordering = options.relaxed_ordering != 0;
  transport.flush_disabled = options.flush_disable;
  transport.gpu_memory = config::allowed_paths(options);
  transport.strict = options.strict;
  if (options.gpudirect_limit >= 0) {
    transport.gpudirect_limit = static_cast<size_t>(options.gpudirect_limit);
  }
  transport.staging_bytes = static_cast<size_t>(options.staging_mib) << 20;
  transport.watchdog_seconds = options.watchdog_seconds;
  transport.interface_name = interface->name;
  transport.bind_address = interface->address;
  return transport;
}

}  // namespace gdr::plugin

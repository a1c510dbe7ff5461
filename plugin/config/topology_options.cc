#include "plugin/config/topology_options.h"

#include <cstdlib>

namespace gdr::config {
namespace {

topology::VerbsPort to_verbs_port(const transport::Device& device,
                                  const transport::RegistrationPaths& allowed) {
  topology::VerbsPort port;
  port.hca = device.hca->name();
  port.sysfs_path = device.hca->sysfs_path();
  port.data_path = device.hca->data_direct_path();
  port.guid = device.hca->guid();
  port.number = device.port;
  port.active = device.state.active;
  port.ethernet = device.state.ethernet;
  port.speed_mbps = device.speed_mbps;
  port.gpudirect = transport::gdr_support(*device.hca, allowed).any();
  return port;
}

std::vector<topology::NamedPort> named_ports(const topology::Machine& machine,
                                             const discovery::HcaFilter& filter) {
  std::vector<topology::NamedPort> named;
  for (const topology::Hca& hca : machine.hcas) {
    for (const topology::Port& port : hca.ports) {
      if (!filter.names_in_full(hca.name, port.number)) continue;
      const discovery::HcaFilter::Entry* entry = filter.entry_for(hca.name, port.number);
      named.push_back({hca.name, port.number, entry == nullptr ? -1 : entry->rail});
    }
  }
  return named;
}

}  // namespace

transport::RegistrationPaths allowed_paths(const Options& options) {
  transport::RegistrationPaths paths = options.gpu_memory;
  paths.dmabuf = paths.dmabuf && options.dmabuf_enable;
  return paths;
}

discovery::DiscoveryOptions discovery_options(const Options& options, bool table_can_flush) {
  discovery::DiscoveryOptions discovery;
  discovery.hcas = options.hcas;
  discovery.query_port_speed = options.query_port_speed;
  const bool flushes = (table_can_flush || options.force_flush) && !options.flush_disable;
  discovery.data_direct = options.data_direct != 0 && flushes;
  return discovery;
}

topology::Selection gpu_selection() {
  topology::Selection selection;
#ifdef GDR_TEST_HOOKS
  if (const char* vendor = std::getenv("GDR_TEST_GPU_VENDOR")) {
    selection.gpu_vendors.push_back(static_cast<uint16_t>(std::strtoul(vendor, nullptr, 0)));
  }
#endif
  return selection;
}

topology::ReadOptions read_options(const Options& options) {
  topology::ReadOptions read;
  read.topology_file = options.topology_file;
  read.selection = gpu_selection();
  return read;
}

topology::DecisionOptions decision_options(const Options& options,
                                           const topology::Machine& machine) {
  topology::DecisionOptions decision;
  decision.gdr_level = options.gdr_level;
  decision.rails = {named_ports(machine, options.hcas), options.rail_map};
  return decision;
}

std::vector<topology::VerbsPort> verbs_ports(const discovery::Discovery& discovery,
                                             const transport::RegistrationPaths& allowed) {
  std::vector<topology::VerbsPort> ports;
  for (const transport::Device& device : discovery.devices) {
    ports.push_back(to_verbs_port(device, allowed));
  }
  for (const transport::Device& device : discovery.inactive) {
    ports.push_back(to_verbs_port(device, allowed));
  }
  return ports;
}

}  // namespace gdr::config

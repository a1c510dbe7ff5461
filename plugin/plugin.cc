#include "plugin/plugin.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "base/commit.h"
#include "base/finding.h"
#include "base/log.h"
#include "base/process_fds.h"
#include "drivers/verbs/verbs_api.h"
#include "plugin/config/environment.h"
#include "plugin/config/load.h"
#include "plugin/config/socket_interface.h"
#include "plugin/config/topology_options.h"
#include "plugin/logger.h"
#include "plugin/rail_policy.h"
#include "plugin/reported_path.h"
#include "plugin/standby_rails.h"
#include "plugin/stats_text.h"
#include "plugin/transport_options.h"
#include "topology/live/acs_findings.h"
#include "topology/live/gpu_facts.h"
#include "topology/live/gpu_links.h"
#include "topology/live/rail_log.h"
#include "topology/sources/nccl_xml.h"
#include "transport/data/message_cutter.h"
#include "transport/memory/gpudirect.h"
#include "transport/memory/registrar.h"
#include "transport/wire/wire.h"

namespace gdr::plugin {
namespace {

constexpr int kFirstTableWithFlush = 9;  // forceFlush, of NCCL 2.24
constexpr unsigned long kInitLines = log::kInit | log::kNet;

config::Options load_options() {
  Findings findings;
  config::Options options = config::load(config::process_environment(), &findings);
  log_findings(findings, kInitLines);
  return options;
}

// Addresses by which NCCL finds HCAs in its topology file.
std::set<topology::Bdf> listed_in_file(const topology::Machine& machine) {
  std::set<topology::Bdf> listed;
  for (const topology::Hca& hca : machine.hcas) {
    if (hca.bdf.has_value()) listed.insert(*hca.bdf);
  }
  return listed;
}

// The rails of this machine, and the ports that they were chosen from.
struct LiveDecision {
  topology::RailDecision rails;
  std::vector<topology::VerbsPort> ports;  // of discovery.devices first, in the same order
  std::set<topology::Bdf> listed;          // HCAs of NCCL's topology file
};

// NCCL creates no communicator where it refuses its graph file.
void warn_of_graph(const std::string& file, Findings* findings) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return;
  if (auto gpus = topology::gpus_of_graph(file); !gpus) {
    findings->push_back({FindingKind::kNcclFails, Severity::kError, "NCCL_GRAPH_FILE",
                         "NCCL refuses this file, and fails: " + gpus.error().text, ""});
  }
}

LiveDecision decide_live(const config::Options& options, const discovery::Discovery& discovery) {
  Findings findings = discovery.findings;
  warn_of_graph(options.graph_file, &findings);
  topology::Machine machine = topology::read_machine(config::read_options(options), &findings);
  LiveDecision live;
  if (machine.nccl_file) live.listed = listed_in_file(machine);
  transport::RegistrationPaths allowed = config::allowed_paths(options);
  allowed.dmabuf = allowed.dmabuf && topology::gpus_export_dmabuf();
  live.ports = config::verbs_ports(discovery, allowed);
  topology::replace_hcas(&machine, live.ports);
  topology::add_gpu_facts(&machine);
  // NCCL loads NVML itself, but may do so only after this.
  (void)topology::add_gpu_links(&machine, topology::uses_cuda()
                                              ? topology::LoadNvml::kYes
                                              : topology::LoadNvml::kOnlyIfLoaded);
  topology::DecisionOptions decision = config::decision_options(options, machine);
  live.rails = topology::decide(std::move(machine), std::move(decision), std::move(findings));
  topology::add_acs_findings(&live.rails);
  return live;
}

// Sets the facts about the address by which connections reach the port, and adds that of RoCE.
void set_address(const transport::Device& device, const transport::GidPreference& preference,
                 DeviceFacts* facts, std::vector<std::pair<std::string, transport::Gid>>* of_roce) {
  const auto gid = transport::resolve_gid(device, preference);
  facts->has_address = gid.has_value();
  if (!gid) {
    facts->address = gid.error().text;
  } else if (device.state.ethernet) {
    of_roce->emplace_back(to_string(device), gid->gid);
    facts->address = std::string(to_string(gid->type)) +
                     (transport::is_ipv4_mapped(gid->gid) ? ", IPv4" : ", IPv6");
  }
}

DeviceFacts facts_of(const transport::Device& device, const config::Options& options,
                     const std::set<topology::Bdf>& listed) {
  const transport::RegistrationPaths allowed = config::allowed_paths(options);
  DeviceFacts facts;
  facts.hca = device.hca->name();
  facts.port = device.port;
  const std::string& data_path = device.hca->data_direct_path();
  facts.data_direct = !data_path.empty();
  if (facts.data_direct) {
    facts.pci_path = data_path;
    if (auto location = topology::pci_location_of_function(data_path)) {
      facts.pci_path = location->sysfs_path;
      facts.pci_name = location->bdf.to_string();
      facts.numa_node = location->numa_node;
    }
  } else if (auto location = topology::pci_location(device.hca->sysfs_path())) {
    facts.pci_path = reported_path(*location, listed, options.merge_functions);
    facts.pci_name = location->bdf.to_string();
    facts.numa_node = location->numa_node;
  }
  facts.guid = device.hca->guid();
  facts.rail = device.rail;
  if (const auto* entry = options.hcas.entry_for(facts.hca, facts.port)) facts.plane = entry->plane;
  facts.max_message_bytes = transport::largest_message(device.state.max_message_bytes);
  facts.speed_mbps = device.speed_mbps;
  facts.ethernet = device.state.ethernet;
  facts.gdr = transport::gdr_support(*device.hca, allowed);
  facts.gdr_text = gdr_text(*device.hca, allowed);
  return facts;
}

std::unique_ptr<RailWarnings> make_warnings(const Plugin& plugin, const config::Options& options,
                                            std::vector<topology::PortRef> ports) {
  auto why_not_direct = [devices = plugin.transport->devices(),
                         allowed = config::allowed_paths(options)](int device) {
    return transport::why_not_direct(*devices[device].hca, allowed);
  };
  return std::make_unique<RailWarnings>(
      plugin.decision, std::move(ports),
      RailWarningOptions{options.strict, options.warn_cross_rail, !options.pxn_disable},
      std::move(why_not_direct));
}

// Chooses the standby rails of all devices, as GDR_NCCL_FAILOVER and GDR_NCCL_STANDBY_RAILS ask.
void choose_standby(const config::Options& options, const std::vector<DeviceFacts>& devices,
                    Plugin* plugin) {
  if (!options.failover) {
    plugin->failover.push_back("failover: off (GDR_NCCL_FAILOVER=0, or MLX5_SINGLE_THREADED=1)");
    return;
  }
  if (options.standby_rails == 0) {
    plugin->failover.push_back(
        "failover: no standby rails, as GDR_NCCL_STANDBY_RAILS=0 asks; only between the rails of a "
        "merged device");
    return;
  }
  const std::vector<StandbyRails> chosen =
      choose_standby_rails(plugin->decision, devices, static_cast<size_t>(options.standby_rails));
  for (size_t i = 0; i < chosen.size(); ++i) {
    plugin->failover.push_back(describe_standby(devices, i, chosen[i]));
    plugin->standby.push_back(chosen[i].devices);
  }
}

// The transport outlives what is returned, which is null where no folder is named.
std::unique_ptr<StatsWriter> start_stats(const std::string& folder,
                                         const transport::Transport& transport) {
  if (folder.empty()) return nullptr;
  return std::make_unique<StatsWriter>(
      folder, [&transport](int number) { return stats_text(transport.stats(), number); });
}

}  // namespace

Result<std::unique_ptr<Plugin>> create_plugin(int table_version) {
  auto plugin = std::make_unique<Plugin>();
  const config::Options options = load_options();
  plugin->table_version = table_version;
  plugin->flushes_always = options.force_flush;
  plugin->merges = options.merge_nics;
  plugin->profiler = options.profiler_plugin;
  if (options.disable != 0) {
    plugin->generation = process_fds::generation();
    GDR_INFO(kInitLines, "disabled by NCCL_IB_DISABLE");
    return plugin;
  }
  Result<transport::TransportOptions> transport_options = make_transport_options(options);
  if (!transport_options) return forward_error(transport_options);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load(options.verbs_library);
  if (!verbs) return forward_error(verbs);
  Result<discovery::Discovery> discovery = discovery::discover_devices(
      *verbs, config::discovery_options(options, table_version >= kFirstTableWithFlush));
  if (!discovery) return forward_error(discovery);
  plugin->skipped = std::move(discovery->skipped);

  LiveDecision live = decide_live(options, *discovery);
  std::vector<transport::Device> devices;
  std::vector<topology::PortRef> ports;
  for (const OfferedPort& offered : offered_ports(live.rails, live.ports, &plugin->skipped)) {
    devices.push_back(discovery->devices[offered.source]);
    devices.back().rail = offered.rail;
    ports.push_back(offered.port);
  }
  if (devices.empty()) {
    for (discovery::SkippedPort& one : excluded_ports(live.rails)) {
      plugin->skipped.push_back(std::move(one));
    }
    log_findings(discovery->findings, kInitLines);
    return fail(Code::kSystem, discovery::no_device_text(plugin->skipped));
  }
  const transport::GidPreference preference = transport_options->connection.gid;
  transport_options->memory.relays = may_relay(options, live.rails.machine);
  Result<std::unique_ptr<transport::Transport>> transport =
      transport::Transport::create(std::move(devices), std::move(*transport_options));
  if (!transport) return forward_error(transport);
  plugin->transport = std::move(*transport);
  plugin->generation = process_fds::generation();
  if (auto finding = ignored_map(live.rails, options)) live.rails.findings.push_back(*finding);

  std::vector<DeviceFacts> facts;
  std::vector<std::pair<std::string, transport::Gid>> gids;
  for (const transport::Device& device : plugin->transport->devices()) {
    facts.push_back(facts_of(device, options, live.listed));
    set_address(device, preference, &facts.back(), &gids);
  }
  for (Finding& one : discovery::same_gids(gids)) live.rails.findings.push_back(std::move(one));
  plugin->decision = std::move(live.rails);
  choose_standby(options, facts, plugin.get());
  plugin->devices = std::make_unique<NetDevices>(std::move(facts));
  plugin->warnings = make_warnings(*plugin, options, std::move(ports));
  plugin->stats = start_stats(options.stats_folder, *plugin->transport);
  return plugin;
}

void log_choice(const Plugin& plugin) {
  if (plugin.transport == nullptr) return;
  const transport::TransportOptions& options = plugin.transport->options();
  const config::Interface interface { options.interface_name, options.bind_address };
  GDR_INFO(kInitLines,
           "version " GDR_VERSION
           " (wire version %d%s%s, table v%d), %zu device(s), handshake over %s",
           transport::wire::kWireVersion, *kCommit == '\0' ? "" : ", commit ", kCommit,
           plugin.table_version, plugin.transport->devices().size(),
           config::to_string(interface).c_str());
  for (const std::string& line : plugin.devices->describe()) {
    GDR_INFO(kInitLines, "%s", line.c_str());
  }
  log_findings(plugin.decision.findings, kInitLines);
  GDR_INFO(kInitLines, "machine read from %s", plugin.decision.machine.source.c_str());
  for (const std::string& line : topology::describe(plugin.decision)) {
    GDR_INFO(kInitLines, "%s", line.c_str());
  }
  for (const std::string& line : plugin.failover) GDR_INFO(kInitLines, "%s", line.c_str());
  for (const discovery::SkippedPort& one : plugin.skipped) {
    log_findings({{one.kind, Severity::kInfo, "not used", to_string(one), ""}}, kInitLines);
  }
}

}  // namespace gdr::plugin

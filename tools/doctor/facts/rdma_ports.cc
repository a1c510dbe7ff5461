// The HCAs and their ports in sysfs.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "tools/doctor/facts/host.h"
#include "tools/doctor/facts/rdma_ports.h"
#include "tools/inspection/file_content.h"
#include "topology/model.h"
#include "topology/sources/sysfs_files.h"
#include "topology/sources/sysfs_rdma.h"

namespace gdr::tools::doctor {
namespace {

namespace fs = std::filesystem;

template <class State>
State rdma_state_of(const std::string& line, State last) {
  const int number = number_in_sysfs(line).value_or(0);
  return number > 0 && number <= static_cast<int>(last) ? static_cast<State>(number)
                                                        : State::kUnknown;
}

// "fe80:0000:0000:0000:0e42:a1ff:fe55:62a2"
std::optional<transport::Gid> parse_rdma_gid(const std::string& text) {
  transport::Gid gid{};
  return inet_pton(AF_INET6, text.c_str(), gid.data()) == 1 ? std::optional(gid) : std::nullopt;
}

transport::GidType rdma_gid_type(const std::string& text, bool is_ethernet) {
  if (text.find("v2") != std::string::npos) return transport::GidType::kRoceV2;
  return is_ethernet ? transport::GidType::kRoceV1 : transport::GidType::kIb;
}

void read_rdma_gids(const fs::path& folder, RdmaPort* port) {
  for (const std::string& name : topo::folder_names(folder / "gids")) {
    const auto index = number_in_sysfs(name);
    const auto gid = parse_rdma_gid(topology::first_line(folder / "gids" / name));
    if (!index || !gid || transport::is_null(*gid)) continue;
    RdmaGid one;
    one.entry.index = *index;
    one.entry.gid = *gid;
    one.entry.type =
        rdma_gid_type(topology::first_line(folder / "gid_attrs/types" / name), port->is_ethernet());
    one.netdev = topology::first_line(folder / "gid_attrs/ndevs" / name);
    if (!one.netdev.empty() &&
        std::count(port->netdevs.begin(), port->netdevs.end(), one.netdev) == 0) {
      port->netdevs.push_back(one.netdev);
    }
    port->gids.push_back(std::move(one));
  }
}

// The interface of a port without GIDs: that of a device of software, or the only one of the PCI
// function.
void add_lone_rdma_netdev(const RdmaHca& hca, RdmaPort* port) {
  if (!port->netdevs.empty() || !port->is_ethernet()) return;
  const std::string parent = topology::first_line(hca.folder / "parent");
  if (!parent.empty()) return port->netdevs.push_back(parent);
  std::vector<std::string> of_function = topo::folder_names(hca.folder / "device/net");
  if (of_function.size() == 1) port->netdevs.push_back(std::move(of_function[0]));
}

RdmaPort read_rdma_port(const RdmaHca& hca, int number) {
  const fs::path folder = hca.folder / "ports" / std::to_string(number);
  const auto line = [&](const char* name) { return topology::first_line(folder / name); };
  RdmaPort port;
  port.number = number;
  port.state = rdma_state_of(line("state"), LinkState::kActiveDefer);
  port.phys_state = rdma_state_of(line("phys_state"), PhysState::kErrorRecovery);
  port.rate = line("rate");
  port.link_layer = line("link_layer");
  port.lid = number_in_sysfs(line("lid"), 16);
  read_rdma_gids(folder, &port);
  add_lone_rdma_netdev(hca, &port);
  return port;
}

void read_rdma_function(const Host& host, RdmaHca* hca) {
  const fs::path sysfs = host.path("/sys");
  hca->is_virtual = !topology::first_line(hca->folder / "parent").empty();
  const auto location = topology::pci_location(hca->folder, sysfs);
  if (!location) return;
  hca->pci = location->bdf.to_string();
  if (hca->is_virtual) return;
  std::error_code error;
  const fs::path driver = fs::read_symlink(fs::path(location->sysfs_path) / "driver", error);
  hca->driver = driver.filename().string();
  const auto function = topology::pci_function(location->sysfs_path);
  if (!function || function->ids.vendor == 0) return;
  hca->pci_ids = fmt::format("{:04x}:{:04x}", function->ids.vendor, function->ids.device);
}

}  // namespace

const char* to_string(LinkState state) {
  constexpr const char* kNames[] = {"unknown", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
  return kNames[static_cast<size_t>(state)];
}

const char* to_string(PhysState state) {
  constexpr const char* kNames[] = {"unknown",  "Sleep",  "Polling",          "Disabled",
                                    "Training", "LinkUp", "LinkErrorRecovery"};
  return kNames[static_cast<size_t>(state)];
}

std::optional<int> number_in_sysfs(const std::string& text, int base) {
  const bool is_hex = base == 16 && text.starts_with("0x");
  int value = 0;
  const auto [stop, error] =
      std::from_chars(text.data() + (is_hex ? 2 : 0), text.data() + text.size(), value, base);
  (void)stop;
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

void read_rdma_hca(const Host& host, RdmaHca* hca) {
  hca->node_type = topology::first_line(hca->folder / "node_type");
  const std::string guid = topology::first_line(hca->folder / "node_guid");
  if (topology::parse_guid(guid) != 0) hca->guid = guid;
  read_rdma_function(host, hca);
  for (const std::string& name : topo::folder_names(hca->folder / "ports")) {
    const int number = number_in_sysfs(name).value_or(0);
    if (number > 0) hca->ports.push_back(read_rdma_port(*hca, number));
  }
}

void read_rdma_sysfs(const Host& host, RdmaPorts* ports) {
  const fs::path folder = host.path("/sys/class/infiniband");
  for (const std::string& name : host.names("/sys/class/infiniband")) {
    RdmaHca hca;
    hca.name = name;
    hca.folder = folder / name;
    read_rdma_hca(host, &hca);
    ports->hcas.push_back(std::move(hca));
  }
}

RdmaPorts read_rdma_ports(const Host& host) {
  RdmaPorts ports;
  read_rdma_sysfs(host, &ports);
  if (host.is_live) read_rdma_verbs(host, &ports);
  read_rdma_netdevs(host, &ports);
  return ports;
}

}  // namespace gdr::tools::doctor

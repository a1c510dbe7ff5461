// The HCAs and their ports, as sysfs and verbs show them.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

#include "drivers/verbs/handles.h"
#include "drivers/verbs/verbs_api.h"
#include "plugin/config/load.h"
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

// IBV_MTU_256 is 1, IBV_MTU_4096 is 5.
std::optional<int> rdma_mtu_bytes(ibv_mtu mtu) {
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) return {};
  return 128 << static_cast<int>(mtu);
}

// Fills in what sysfs has not shown, as with a verbs library that has its own.
void fill_rdma_port(const ibv_port_attr& attr, RdmaPort* port) {
  port->active_mtu = rdma_mtu_bytes(attr.active_mtu);
  port->max_mtu = rdma_mtu_bytes(attr.max_mtu);
  if (port->state == LinkState::kUnknown && attr.state <= IBV_PORT_ACTIVE_DEFER) {
    port->state = static_cast<LinkState>(attr.state);
  }
  if (port->phys_state == PhysState::kUnknown &&
      attr.phys_state <= static_cast<uint8_t>(PhysState::kErrorRecovery)) {
    port->phys_state = static_cast<PhysState>(attr.phys_state);
  }
  if (port->link_layer.empty() && attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
    port->link_layer = "Ethernet";
  }
  if (port->link_layer.empty() && attr.link_layer == IBV_LINK_LAYER_INFINIBAND) {
    port->link_layer = "InfiniBand";
  }
  if (!port->lid) port->lid = attr.lid;
}

RdmaHca* hca_of_verbs(const Host& host, const ibv_device& device, RdmaPorts* ports) {
  const auto known = std::find_if(ports->hcas.begin(), ports->hcas.end(),
                                  [&](const RdmaHca& one) { return one.name == device.name; });
  // A verbs library that is not rdma-core's may have a device of the same name.
  if (known != ports->hcas.end() && known->folder == device.ibdev_path) return &*known;
  if (known != ports->hcas.end()) ports->hcas.erase(known);
  RdmaHca hca;
  hca.name = device.name;
  hca.folder = device.ibdev_path;
  read_rdma_hca(host, &hca);
  return &ports->hcas.emplace_back(std::move(hca));
}

void query_rdma_ports(const verbs::Api& api, ibv_device* device, RdmaHca* hca) {
  const verbs::UniqueContext context(api.open_device(device), {&api});
  if (context == nullptr) {
    hca->open_errno = errno;
    hca->open_error = hca->open_errno == 0 ? "no reason given" : std::strerror(hca->open_errno);
    return;
  }
  for (RdmaPort& port : hca->ports) {
    ibv_port_attr attr{};
    if (api.query_port(context.get(), static_cast<uint8_t>(port.number), &attr) == 0) {
      fill_rdma_port(attr, &port);
    }
  }
}

void read_rdma_verbs(const Host& host, RdmaPorts* ports) {
  const config::Options options = config::load(host.environment, nullptr);
  Result<std::shared_ptr<const verbs::Api>> api = verbs::Api::load(options.verbs_library);
  if (!api) {
    ports->verbs_error = api.error().text;
    return;
  }
  int count = 0;
  errno = 0;
  ibv_device** devices = (*api)->get_device_list(&count);
  if (devices == nullptr) {
    ports->verbs_error = errno == 0 ? "ibv_get_device_list failed"
                                    : std::string("ibv_get_device_list: ") + std::strerror(errno);
    return;
  }
  for (RdmaHca& hca : ports->hcas) hca.in_verbs = false;
  for (int i = 0; i < count; ++i) {
    RdmaHca* hca = hca_of_verbs(host, *devices[i], ports);
    hca->in_verbs = true;
    errno = 0;
    query_rdma_ports(**api, devices[i], hca);
  }
  (*api)->free_device_list(devices);
  std::sort(ports->hcas.begin(), ports->hcas.end(),
            [](const RdmaHca& a, const RdmaHca& b) { return topology::name_less(a.name, b.name); });
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

RdmaPorts read_rdma_ports(const Host& host) {
  RdmaPorts ports;
  read_rdma_sysfs(host, &ports);
  if (host.is_live) read_rdma_verbs(host, &ports);
  read_rdma_netdevs(host, &ports);
  return ports;
}

}  // namespace gdr::tools::doctor

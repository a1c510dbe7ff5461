// What verbs alone shows of the ports of HCAs.
#include <algorithm>
#include <cstring>
#include <memory>

#include "drivers/verbs/handles.h"
#include "drivers/verbs/verbs_api.h"
#include "plugin/config/load.h"
#include "tools/doctor/facts/host.h"
#include "topology/model.h"

namespace gdr::tools::doctor {
namespace {

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

}  // namespace

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

}  // namespace gdr::tools::doctor

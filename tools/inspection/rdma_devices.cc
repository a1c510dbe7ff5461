#include "tools/inspection/rdma_devices.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "plugin/discovery/discovery.h"
#include "tools/inspection/text_table.h"

namespace gdr::tools::topo {
namespace {

constexpr int kManufacturerShift = 40;  // a GUID begins with 24 bits of its manufacturer

// "mlx5_" of "mlx5_0".
std::string_view without_number(std::string_view name) {
  return name.substr(0, name.find_last_not_of("0123456789") + 1);
}

// Whether another HCA of the model and the driver registers GPU memory.
bool has_peer_with_gpudirect(const Machine& machine, const Hca& hca) {
  return std::any_of(machine.hcas.begin(), machine.hcas.end(), [&](const Hca& other) {
    return other.gpudirect.value_or(false) && other.ids == hca.ids &&
           without_number(other.name) == without_number(hca.name);
  });
}

// The number in "4: RNIC", as libibverbs takes it for the transport.
ibv_transport_type transport_of(const std::string& node_type) {
  switch (std::atoi(node_type.c_str())) {
    case 0:
    case IBV_NODE_CA:
    case IBV_NODE_SWITCH:
    case IBV_NODE_ROUTER:
      return IBV_TRANSPORT_IB;
    case IBV_NODE_RNIC:
      return IBV_TRANSPORT_IWARP;
    case IBV_NODE_USNIC:
      return IBV_TRANSPORT_USNIC;
    case IBV_NODE_USNIC_UDP:
      return IBV_TRANSPORT_USNIC_UDP;
    default:
      return IBV_TRANSPORT_UNSPECIFIED;
  }
}

uint8_t link_layer_of(const std::string& text) {
  if (text.empty() || text == "InfiniBand") return IBV_LINK_LAYER_INFINIBAND;
  return text == "Ethernet" ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_UNSPECIFIED;
}

}  // namespace

std::string unsupported_reason(const RdmaKind& kind, bool named) {
  return discovery::exclusion_reason(transport_of(kind.node_type), link_layer_of(kind.link_layer),
                                     named);
}

RdmaKind kind_by_ids(const topology::PciIds& ids) {
  // The kernel's node_type of these (drivers/infiniband/hw: efa, cxgb4, erdma). Amazon's Ethernet
  // NICs have the vendor, too.
  const bool is_efa = ids.vendor == 0x1d0f && ids.device >> 4 == 0xefa;
  const bool is_chelsio = ids.vendor == 0x1425;
  const bool is_erdma = ids.vendor == 0x1ded && ids.device == 0x107f;
  if (is_efa) return {"7: unspecified", "Unspecified"};
  return is_chelsio || is_erdma ? RdmaKind{"4: RNIC", "Ethernet"} : RdmaKind{};
}

bool is_rdma_device(const Machine& machine, const Hca& hca) {
  const bool has_guid = hca.guid >> kManufacturerShift != 0;
  return !machine.nccl_file || has_guid || hca.gpudirect.value_or(true) ||
         has_peer_with_gpudirect(machine, hca);
}

bool is_rdma_port(const Machine& machine, PortRef port) {
  return is_rdma_device(machine, hca_of(machine, port));
}

bool has_rdma_rail(const Machine& machine, const topology::Disagreement& one) {
  return std::any_of(one.rails.begin(), one.rails.end(),
                     [&](PortRef port) { return is_rdma_port(machine, port); });
}

}  // namespace gdr::tools::topo

#include "transport/device/port_exclusion.h"

namespace gdr::transport {
namespace {

// Amazon's PCI vendor number. Its Elastic Fabric Adapter is a device of unspecified transport and
// link layer with queue pairs of the types UD and SRD only (rdma-core, providers/efa).
constexpr uint32_t kAmazon = 0x1d0f;

std::string device_reason(const PortKind& kind) {
  switch (kind.transport) {
    case IBV_TRANSPORT_IB:
      return "";
    case IBV_TRANSPORT_IWARP:
      if (is_named_iwarp(kind)) return "";
      return "is an iWARP device, whose queue pairs mostly connect only by the RDMA connection "
             "manager, which NCCL and this plugin do not use. Fix: if they connect without, as "
             "those "
             "of eRDMA in its compatible mode do, name the device in NCCL_IB_HCA";
    default:
      break;
  }
  if (kind.vendor_id == kAmazon) {
    return "is an Elastic Fabric Adapter (EFA), which has no reliable connections. Fix: use the "
           "network plugin aws-ofi-nccl with it";
  }
  return "is a device of an unknown transport, neither InfiniBand nor RoCE. Fix: use the network "
         "plugin of its vendor, if there is one";
}

}  // namespace

bool is_named_iwarp(const PortKind& kind) {
  return kind.named && kind.transport == IBV_TRANSPORT_IWARP &&
         kind.link_layer == IBV_LINK_LAYER_ETHERNET;
}

std::string exclusion_reason(const PortKind& kind) {
  if (std::string reason = device_reason(kind); !reason.empty()) return reason;
  const bool known =
      kind.link_layer == IBV_LINK_LAYER_INFINIBAND || kind.link_layer == IBV_LINK_LAYER_ETHERNET;
  return known ? "" : "has a link layer that is neither InfiniBand nor Ethernet";
}

}  // namespace gdr::transport

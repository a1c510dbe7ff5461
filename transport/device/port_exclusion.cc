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
      return " is an iWARP device, whose queue pairs only the RDMA connection manager can connect; "
             "NCCL has no transport for it but TCP sockets";
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP:
      return " is a usNIC device, which has neither reliable connections nor RDMA writes; NCCL has "
             "no transport for it but TCP sockets";
    default:
      break;
  }
  if (kind.vendor_id == kAmazon) {
    return " is an Elastic Fabric Adapter (EFA), which has no reliable connections. Fix: use the "
           "network plugin aws-ofi-nccl with it";
  }
  return " is a device of an unknown transport, neither InfiniBand nor RoCE. Fix: use the network "
         "plugin of its vendor, if there is one";
}

}  // namespace

std::string exclusion_reason(const PortKind& kind) {
  if (std::string reason = device_reason(kind); !reason.empty()) return reason;
  const bool known =
      kind.link_layer == IBV_LINK_LAYER_INFINIBAND || kind.link_layer == IBV_LINK_LAYER_ETHERNET;
  return known ? "" : " has a link layer that is neither InfiniBand nor Ethernet";
}

}  // namespace gdr::transport

// Ports that the transport cannot use, although the verbs library lists them: it needs reliable
// connections (RC) between queue pairs that it connects itself, over InfiniBand or RoCE.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace gdr::transport {

// What the verbs library reports of a device and one of its ports.
struct PortKind {
  ibv_transport_type transport = IBV_TRANSPORT_IB;  // ibv_device
  uint32_t vendor_id = 0;                           // ibv_device_attr: the PCI vendor or an OUI
  uint8_t link_layer = IBV_LINK_LAYER_UNSPECIFIED;  // ibv_port_attr
};

// Returns why the transport cannot use a port of this kind, and what can, to follow the port's name
// in a log line: " is an iWARP device, ...". "" for a port that it can use.
std::string exclusion_reason(const PortKind& kind);

}  // namespace gdr::transport

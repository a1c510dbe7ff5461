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
  bool named = false;  // by the user, in a list of what to use (NCCL_IB_HCA)
};

// Returns why the transport cannot use a port of this kind, and what can, to follow the port's name
// in a log line: "is an iWARP device, ...". "" for a port that it can use.
//
// Most iWARP devices connect only by the RDMA connection manager. But some have queue pairs that
// connect as those of RoCE do: Alibaba's eRDMA in its compatible mode. Nothing in the verbs library
// distinguishes them, so that the user does: a port with an Ethernet link is used if it is `named`.
// NCCL's net_ib, which reads only the link layer, uses them all (src/transport/net_ib).
std::string exclusion_reason(const PortKind& kind);

// Whether such a port of an iWARP device is used because it is named.
bool is_named_iwarp(const PortKind& kind);

}  // namespace gdr::transport

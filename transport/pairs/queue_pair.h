// Reliable-connected queue pairs: their creation, and the changes of state that connect one to its
// peer.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "drivers/verbs/handles.h"
#include "transport/device/hca.h"
#include "transport/pairs/connection_options.h"
#include "transport/pairs/state_changes.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// What is asked of the HCA when a QP is created.
struct QueueDepths {
  int send = 0;          // work requests
  int receive = 0;       // work requests
  int inline_bytes = 0;  // per send; an HCA that cannot grant them grants fewer or none
};

struct QueuePair {
  verbs::UniqueQp qp;         // null once Recovery has destroyed it
  uint32_t number = 0;        // of the QP
  uint32_t send_entries = 0;  // work requests that its send queue has room for
  // Sends of at most this many bytes may be copied into the work request ("inline"), which spares
  // the HCA the DMA read of the data. Granted by the HCA.
  uint32_t inline_bytes = 0;
  // Which pair of the connection it is an end of, and whether that stands by (PairPlan).
  uint32_t index = 0;
  bool standby = false;
  // Index of the QP's rail within the connection: the index of every local key that is used with
  // this QP, as a registration is valid on one HCA only.
  uint32_t rail = 0;
  // The same at the peer, which may have another number of rails: the index of the peer's keys. Set
  // when the peer is known (RailSet::set_peer_rails).
  uint32_t peer_rail = 0;
  // Of the peer's wire::Tables on that rail.
  uint32_t peer_tables_rkey = 0;
  // What both HCAs agree on, as far as that is known (ece_agreement.h).
  std::optional<wire::Ece> ece = std::nullopt;
  // Where the connection goes without the rail of a pair that has no QP: its port, "mlx5_0:1".
  std::string missing_port = {};
};

// Creates a QP on the device's HCA in RESET. Sends and receives complete in `cq`, which the QP must
// not outlive.
Result<QueuePair> create_queue_pair(const Device& device, ibv_cq* cq, const QueueDepths& depths);

// How the packets of one direction of a connection are marked, so that the fabric can treat them
// differently from others.
struct ServiceClass {
  uint8_t service_level = 0;
  uint8_t traffic_class = 0;  // of the GRH; on RoCE v2 the IP header's DSCP and ECN bits
};

// Whether the ports are in different InfiniBand subnets, and the remote one's GID names no FLID, by
// which routers forward packets to it.
bool lacks_flid(const wire::RailAddress& local, const wire::RailAddress& remote);

// Both ends of one QP.
struct QueuePairPath {
  const wire::RailAddress* local;
  const wire::RailAddress* remote;
  uint32_t remote_qp_number;
  uint32_t local_psn;  // the first packet sequence number that this end sends, 24 bits
  uint32_t remote_psn;
  ServiceClass service;  // of what this end sends
};

// The change of a QP in any state to RESET or ERROR.
StateChange to_plain_state(const Device& device, ibv_qp* qp, ibv_qp_state state);
// The changes from RESET to INIT, in which receives may be posted and nothing is transferred, to
// RTR (ready to receive) and to RTS (ready to send).
StateChange to_init(const Device& device, ibv_qp* qp, const ConnectionOptions& options);
StateChange to_ready_to_receive(const Device& device, ibv_qp* qp, const QueuePairPath& path);
StateChange to_ready_to_send(const Device& device, ibv_qp* qp, const QueuePairPath& path,
                             const ConnectionOptions& options);

}  // namespace gdr::transport

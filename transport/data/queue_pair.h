// Reliable-connected queue pairs: created in INIT, then connected to one peer.
#pragma once

#include "base/result.h"
#include "drivers/verbs/handles.h"
#include "transport/data/connection_options.h"
#include "transport/device/hca.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

struct QueueDepths {
  int send = 0;          // work requests
  int receive = 0;       // work requests
  int inline_bytes = 0;  // asked for; an HCA that has less gives none
};

struct QueuePair {
  verbs::UniqueQp qp;
  int inline_bytes = 0;  // granted
};

// The QP comes back in INIT: receives may be posted, nothing flows yet.
Result<QueuePair> create_queue_pair(const Device& device, ibv_cq* cq, const QueueDepths& depths,
                                    const ConnectionOptions& options);

struct QueuePairPath {
  const wire::RailAddress* local;
  const wire::RailAddress* remote;
  uint32_t remote_qp_number;
  uint32_t local_psn;
  uint32_t remote_psn;
  uint8_t traffic_class;
};

// INIT -> RTR -> RTS.
Status connect_queue_pair(const verbs::Api& api, ibv_qp* qp, const QueuePairPath& path,
                          const ConnectionOptions& options);

}  // namespace gdr::transport

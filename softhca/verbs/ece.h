// Enhanced connection establishment: options of a provider that both ends of a connection use
// (ibv_set_ece(3), ibv_query_ece(3)).
//
// As with mlx5, a QP reports the supported options until some are set, then none until
// ibv_modify_qp takes them on the way to RTS, then those that were accepted. Only QPs that use the
// same options understand each other: QueuePair::remote_answers().
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace softhca {

struct Qp;

struct Ece {
  uint32_t reported = 0;
  uint32_t wanted = 0;  // set, but not taken yet; 0: none
};

// As the verbs of these names: 0 or an errno value.
int query_ece(Qp& qp, ibv_ece* ece);
int set_ece(Qp& qp, ibv_ece* ece);
// Takes the options that are set. To be called by a successful change to INIT, RTR or RTS; the send
// queue's mutex is held.
void take_ece(Qp& qp);

}  // namespace softhca

// Which changes of a QP's state verbs allow, and with which attributes (IB specification 11.2.5.2).
#pragma once

#include <infiniband/verbs.h>

namespace softhca {

// True when `from` may become `to` with exactly the attributes in `mask`.
bool transition_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace softhca

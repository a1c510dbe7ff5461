// The changes of a QP's state that ibv_modify_qp allows, and the attributes that each requires and
// permits (IBTA 11.2.5.2 "Modify Queue Pair", table "QP State Transition Properties"; the table of
// the Linux kernel is qp_state_table in drivers/infiniband/core/verbs.c).
#pragma once

#include <infiniband/verbs.h>

namespace softhca {

// Returns true when a QP in `from` may go to `to` with exactly the attributes in `mask`
// (ibv_qp_attr_mask).
bool transition_allowed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace softhca

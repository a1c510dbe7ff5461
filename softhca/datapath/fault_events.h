// The moments of a request at which configured faults happen ("at_request" of softhca/README.md).
#pragma once

#include <infiniband/verbs.h>

#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/work_request.h"

namespace softhca {

// What faults make of a request at one moment.
struct Interruption {
  bool cut = false;  // it gets no further at this moment
  // The error with which it completes at the requester; success: the requester gets no answer.
  ibv_wc_status status = IBV_WC_SUCCESS;
  // The error with which its receive completes.
  ibv_wc_status receive_status = IBV_WC_SUCCESS;
};

// Counts a request that reaches a moment, in the triggers of both ends; one that is sent again is
// not counted again. Where a fault happens, its effect on the link and on the QP is there when this
// returns; SendQueue calls Faults::serve_events() for the rest. `locked`: qp.remote().mutex is
// held.
Interruption reach(QueuePair& qp, Wqe& wqe, Moment moment, bool locked);

// What the requester gets when the responder's receive completes with `theirs`, and success where
// the responder sends nothing.
ibv_wc_status answer_to_failed_receive(ibv_wc_status theirs);

}  // namespace softhca

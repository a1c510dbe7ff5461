// Carrying out one send work request: the checks at both ends, the copy, and the receiver's
// completion. The checks are those of a responder (IBTA 9.7.4 for RC): QP state, P_Key and
// address, receive queue, rkey, bounds and access.
#pragma once

#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/work_request.h"

namespace softhca {

// Starts a request, and finishes it where the posting thread can move its bytes. `alone` says that
// nothing earlier of this queue is in progress. Unless the result is kInProgress, `transfer` holds
// no resources when this returns.
TransferResult start_transfer(QueuePair& qp, Wqe& wqe, Transfer& transfer, bool alone);
// complete_transfer() for an asynchronous transfer whose bytes have been copied, while faults watch
// the moments of each request. With kNoAnswer the request has to be started again.
TransferResult finish_in_steps(QueuePair& qp, Wqe& wqe, Transfer& transfer);

}  // namespace softhca

// Transfers whose bytes the posting thread cannot move at once: copies of CUDA memory, and copies
// through the staging area. They are started here, advanced by whoever progresses the send queue,
// and completed in the order of posting.
#pragma once

#include "softhca/datapath/queue_pair.h"
#include "softhca/datapath/work_request.h"

namespace softhca {

// Returns true when the transfer, whose ends are gathered, cannot be made by the posting thread.
bool needs_async(const QueuePair& qp, const Transfer& transfer);

// Starts a transfer whose ends are gathered and checked; the remote QP's mutex is held. `alone`
// says that nothing earlier of the queue is in progress. Returns kInProgress, kFinished with an
// error, or kNeedsExclusive when the transfer could overtake one that is in progress.
TransferResult start_async(QueuePair& qp, const Wqe& wqe, Transfer& transfer, bool alone);
// Moves it on without waiting: kInProgress, or kFinished, after which complete_transfer() must
// follow.
TransferResult advance_transfer(QueuePair& qp, Transfer& transfer);
// Pushes the receiver's completion, if there is one, and releases what the transfer holds. To be
// called in the order of posting. Returns false when the receive could not complete, since the
// remote QP has been stopped, or its CQ is full: there is no acknowledgement then.
bool complete_transfer(QueuePair& qp, Transfer& transfer, bool success);
// Waits until a transfer in progress touches no memory any more, and forgets it. Its receiver
// learns nothing: the receive is posted again, once all later ones in progress have been aborted,
// too.
void abort_transfer(QueuePair& qp, Transfer& transfer);

}  // namespace softhca

// Carrying out one send work request: checks at both ends, the copy, and the receiver's completion.
#pragma once

#include <infiniband/verbs.h>

#include "softhca/datapath/work_request.h"

namespace softhca {

struct Qp;

struct Verdict {
  enum Kind {
    kFinished,          // with `status`
    kFlying,            // ask advance_transfer
    kWaitAlone,         // may not overtake what is under way
    kNoAnswer,          // nobody there, or not (yet) connected to this QP
    kReceiverNotReady,  // no receive posted
  };
  Kind kind = kFinished;
  ibv_wc_status status = IBV_WC_SUCCESS;
};

// `alone`: nothing earlier of this queue is under way.
Verdict start_transfer(Qp& qp, Wqe& wqe, Flight& flight, bool alone);
// Moves a flying transfer on; once it is finished, land_transfer has to follow.
Verdict advance_transfer(Qp& qp, Flight& flight);
// The receiver's completion, and the end of all that the flight holds. In the order of posting.
void land_transfer(Qp& qp, Flight& flight, bool success);
// Waits until a flying transfer touches memory no more, and forgets it.
void abort_transfer(Qp& qp, Flight& flight);

}  // namespace softhca

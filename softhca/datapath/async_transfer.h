// Transfers that take a while: copies of CUDA memory, and those through staging.
#pragma once

#include "softhca/datapath/transfer.h"

namespace softhca {

// Starts one whose ends are gathered in `flight` and checked; the remote QP's mutex is held. Says
// kWaitAlone when it could overtake what is under way.
Verdict start_flight(Qp& qp, const Wqe& wqe, Flight& flight, bool alone);

// True when the bytes cannot be moved by the posting thread at once.
bool must_fly(const Qp& qp, const Flight& flight);

}  // namespace softhca

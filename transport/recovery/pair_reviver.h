// How pairs that were lost are connected again.
#pragma once

#include <cstdint>

#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// All with the mutex.

// Claims the pairs that are due, which until they are revived have no deadline. Returns for which
// rails (a bit each) revive_pairs() has something to do.
uint32_t claim_revivals(RecoveryState& state, RecoveryTime now);
// See RecoverySteps::revive_pairs(). The lock is given up meanwhile.
void revive_pairs(RecoveryState& state, RecoveryTime now, uint32_t rails, RecoveryLock& lock);

}  // namespace gdr::transport

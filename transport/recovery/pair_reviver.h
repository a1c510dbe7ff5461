// How pairs that were lost are connected again.
#pragma once

#include <cstdint>

#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// All with the mutex.

// Whether revive_pairs() has something to do for a pair, or for its port.
bool is_revival_due(const RecoveryState& state, const RecoveryState::Pair& pair, RecoveryTime now);
// Queries the port of a rail, unless that was done in the last second, and connects those of its
// pairs that are due. The lock is given up meanwhile.
void revive_pairs(RecoveryState& state, uint32_t rail, RecoveryTime now, RecoveryLock& lock);

}  // namespace gdr::transport

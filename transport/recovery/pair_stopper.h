// How an epoch of a pair ends: its QP is stopped or destroyed, what has arrived is counted, and
// nothing is left in the CQ.
#pragma once

#include <cstdint>

#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// All with the mutex; a lock is given up meanwhile.

// Whether the QP is to be moved to ERROR, which stop_pair() does.
bool is_stop_due(const RecoveryState& state, const RecoveryState::Pair& pair, RecoveryTime now);
void stop_pair(RecoveryState& state, RecoveryState::Pair& pair, RecoveryLock& lock);
// The QP is in ERROR, or does not exist any more.
void on_stopped(RecoveryState& state, RecoveryState::Pair& pair, RecoveryTime now);
// Destroys the QP of a pair that has_to_be_destroyed(). For the data path only: it is the only
// other one that uses the QP.
void destroy_pair(RecoveryState& state, RecoveryState::Pair& pair, RecoveryLock& lock);
// Returns an errno value. See destroy_pair().
int destroy_queue_pair(RecoveryState& state, RecoveryState::Pair& pair, RecoveryLock& lock);

// Once the QP is in ERROR: states the arrivals if all are counted.
void count_arrivals(RecoveryState& state, RecoveryState::Pair& pair, RecoveryTime now);
// The data path has found the CQ of the rail empty, as it had to be when await_empty_queues() had
// counted so far.
void note_empty_queue(RecoveryState& state, uint32_t rail, uint32_t awaited);
void await_empty_queues(RecoveryState& state);
// The data path has finished with the pair. Returns whether nothing of the epoch is left.
bool drain_pair(RecoveryState& state, RecoveryState::Pair& pair);

}  // namespace gdr::transport

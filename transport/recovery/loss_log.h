// What a Recovery logs of pairs that are lost and return, and what its state texts say.
#pragma once

#include <string>

#include "transport/recovery/recovery_state.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

// All with the mutex.

// The pair was lost. One that was not used since its last loss has failed to return.
void note_loss(RecoveryState& state, RecoveryState::Pair& pair, RecoveryTime now);
// Logs the losses that were noted, once the causes at both ends are known, or after a while.
void log_losses(RecoveryState& state, RecoveryTime now);
// A pair whose loss was logged does not return, although the log has announced that.
void log_lost_for_good(const RecoveryState& state, const RecoveryState::Pair& pair);
void log_failed_return(RecoveryState& state, RecoveryState::Pair& pair, const Error& reason,
                       RecoveryTime now);
void log_return(RecoveryState& state, RecoveryState::Pair& pair);
RailLoss describe_loss(const RecoveryState& state, const RecoveryState::Pair& pair);
// See Recovery::state_text().
std::string state_text(const RecoveryState& state);

}  // namespace gdr::transport

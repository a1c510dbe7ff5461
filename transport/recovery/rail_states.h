// What a Recovery knows of the rails of its end, and what that means to their pairs: ports that are
// down, HCAs that are gone, rails that were withdrawn.
#pragma once

#include <cstdint>

#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// All with the mutex; a lock is given up meanwhile, as the call may block.

// An HCA of the connection reported an event. Returns whether recovery deals with it.
bool take_event(RecoveryState& state, const HcaContext& hca, const ibv_async_event& event);
// Looks at what the HCAs and ports have reported before.
void look_at_rails(RecoveryState& state, RecoveryLock& lock);
// See RecoverySteps::waits_for_port().
bool waits_for_port(const RecoveryState& state, const HcaContext& hca, int port);

// Queries whether the port of a rail is active, unless that was done in the last second.
void query_port(RecoveryState& state, uint32_t rail, RecoveryTime now, RecoveryLock& lock);

// A port that is down is given up at once where there is another rail.
void lose_ports_that_are_down(RecoveryState& state);
void lose_rail(RecoveryState& state, uint32_t rail, PairCause cause);
// All ports of the HCA are gone.
void lose_hca(RecoveryState& state, const HcaContext& hca);
// The HCA of a rail is gone, or its CQ cannot be used.
void give_up_rail(RecoveryState& state, uint32_t rail);
// This end gives the pair's rail up for good.
void withdraw(RecoveryState& state, RecoveryState::Pair& pair, int err);

}  // namespace gdr::transport

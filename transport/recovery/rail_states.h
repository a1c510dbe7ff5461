// What a Recovery knows of the rails of its end, and what that means to their pairs: ports that are
// down, HCAs that are gone, rails that were withdrawn.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// All with the mutex; a lock is given up meanwhile, as the call may block.

// An HCA of the connection reported an event. Returns whether recovery deals with it.
bool take_event(RecoveryState& state, const HcaContext& hca, const ibv_async_event& event);
// Looks at what the HCAs and ports have reported before.
void look_at_rails(RecoveryState& state, RecoveryLock& lock);
// See RecoverySteps::waits_for_port().
bool waits_for_port(const RecoveryState& state, const HcaContext& hca, int port);

// Returns a pair of each port whose state counts and that was not queried in the last second.
std::vector<const RecoveryState::Pair*> ports_to_query(const RecoveryState& state,
                                                       RecoveryTime now);
// Queries those of these rails (a bit each).
void query_ports(RecoveryState& state, RecoveryTime now, uint32_t rails, RecoveryLock& lock);
// Whether the pair's port is active. Nothing where the port has reported a change meanwhile, or
// the connection was closed.
std::optional<bool> query_port(RecoveryState& state, const RecoveryState::Pair& pair,
                               RecoveryLock& lock);

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

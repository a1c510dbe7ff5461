// What the ends of a Recovery write to each other about their pairs: statements, what carries them,
// and probes.
#pragma once

#include <cstdint>

#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// Ordinals of WorkKind::kProbe. The first and the last are writes of wire::kProbeBytes, since paths
// exist that lose large packets alone, as where a switch has a smaller MTU; the others of no bytes.
constexpr uint32_t kReturnProbe = 0;   // shows that a pair that was revived works
constexpr uint32_t kPeerProbe = 1;     // Recovery::probe_peer
constexpr uint32_t kMarker = 2;        // the last work request of a lost pair
constexpr uint32_t kStandbyProbe = 3;  // shows whether a pair that carries nothing works

// All with the mutex.

// Probes the standby pairs that are connected.
void prove_standby(RecoveryState& state);
// See Recovery::probe_peer().
bool probe_peer(RecoveryState& state);
// Posts the probe by which a pair returns.
void probe_return(RecoveryState& state, RecoveryState::Pair& pair);
// Takes the peer's statement, which came over the socket, or what the peer has written into this
// end's tables.
void take_statement(RecoveryState& state, const wire::PairStatement& statement, RecoveryTime now);
void read_statements(RecoveryState& state, RecoveryTime now);
// States what is due.
void state_pairs(RecoveryState& state, RecoveryTime now);
// A probe or a statement of the present epoch has completed or failed.
void on_own_write(RecoveryState& state, const WorkId& id, RecoveryTime now);
void on_own_failure(RecoveryState& state, const WorkId& id, ibv_wc_status status, RecoveryTime now);

}  // namespace gdr::transport

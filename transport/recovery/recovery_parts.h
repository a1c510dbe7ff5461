// What the parts of a Recovery do with its state, each for the others. All with the mutex; a lock
// is given up meanwhile, as the call may block.
#pragma once

#include <cstdint>
#include <mutex>

#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_state.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

// ---- recovery_steps.cc

// Takes every step that is due and does not block, and what follows from them; on a connection that
// has failed, only QPs are stopped.
void take_steps(RecoveryState& state, RecoveryTime now);
// A work request of a pair has completed; not one that carries data and has succeeded.
void take_completion(RecoveryState& state, const WorkId& id, ibv_wc_status status,
                     RecoveryTime now);
// Without the mutex: takes what is reported to a connection that is not closed, and the steps that
// follow from it.
template <class Report>
void report(RecoveryState& state, Report&& take) {
  const RecoveryTime now = state.now();
  std::lock_guard lock(state.mutex);
  if (state.closed) return;
  take(now);
  take_steps(state, now);
}

// ---- pair_epochs.cc: how an epoch of a pair ends, and the next one begins

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
// Whether revive_pairs() has something to do for a pair, or for its port.
bool is_revival_due(const RecoveryState& state, const RecoveryState::Pair& pair, RecoveryTime now);
// Queries the port of a rail, and connects those of its pairs that are due.
void revive_pairs(RecoveryState& state, uint32_t rail, RecoveryTime now, RecoveryLock& lock);

// ---- rail_states.cc: ports that are down, HCAs that are gone, rails that were withdrawn. What the
// watcher reports of them is there, too: RecoverySteps::on_event() and others.

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

// ---- statements.cc: what the ends write to each other about their pairs

// Ordinals of WorkKind::kProbe. The first and the last are writes of wire::kProbeBytes, since paths
// exist that lose large packets alone, as where a switch has a smaller MTU; the others of no bytes.
constexpr uint32_t kReturnProbe = 0;   // shows that a pair that was revived works
constexpr uint32_t kPeerProbe = 1;     // Recovery::probe_peer
constexpr uint32_t kMarker = 2;        // the last work request of a lost pair
constexpr uint32_t kStandbyProbe = 3;  // shows whether a pair that carries nothing works

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

// ---- loss_log.cc

// The pair was lost. One that was not used since its last loss has failed to return.
void note_loss(RecoveryState& state, RecoveryState::Pair& pair, RecoveryTime now);
// Logs the losses that were noted, once the causes at both ends are known, or after a while.
void log_losses(RecoveryState& state, RecoveryTime now);
void log_failed_return(RecoveryState& state, RecoveryState::Pair& pair, const Error& reason,
                       RecoveryTime now);
void log_return(RecoveryState& state, RecoveryState::Pair& pair);
RailLoss describe_loss(const RecoveryState& state, const RecoveryState::Pair& pair);

}  // namespace gdr::transport

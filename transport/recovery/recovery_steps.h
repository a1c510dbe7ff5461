// The steps that a Recovery takes: which are due, when the next ones are, and who takes those that
// may block. The watcher's side of a Recovery.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

// Takes every step that is due and does not block, and what follows from them; on a connection that
// has failed, only QPs are stopped. With the mutex.
void take_steps(RecoveryState& state, RecoveryTime now);
// A work request of a pair has completed; not one that carries data and has succeeded. With the
// mutex.
void take_completion(RecoveryState& state, const WorkId& id, ibv_wc_status status,
                     RecoveryTime now);
// Takes what is reported to a connection that is not closed, and the steps that follow from it.
template <class Report>
void report(RecoveryState& state, Report&& take) {
  const RecoveryTime now = state.now();
  std::lock_guard lock(state.mutex);
  if (state.closed) return;
  take(now);
  take_steps(state, now);
}

// What the watcher calls, and the threads to which it gives calls that may block.
class RecoverySteps {
 public:
  // Calls that are due, and may block: for which rails, a bit each. Each was asked for once, and is
  // made by another thread.
  struct Due {
    uint32_t stops = 0;    // stop_pairs()
    uint32_t revives = 0;  // revive_pairs()
    // Of those rails, which no longer exist after close().
    std::array<const HcaContext*, wire::kMaxRails> hcas{};
  };

  explicit RecoverySteps(RecoveryState& state) : state_(state) {}

  // ---- watcher thread
  // Called about once a second, and at deadline().
  Due on_tick(RecoveryTime now);
  // Nobody makes what is left of those calls: there is no memory. The next tick asks again.
  void take_back(const Due& due);
  // When on_tick must be called at the latest; RecoveryTime::max() when nothing is due.
  RecoveryTime deadline() const {
    return RecoveryTime(RecoveryTime::duration(state_.deadline.load(std::memory_order_acquire)));
  }
  // The peer's statement, which came over the socket.
  void on_statement(const wire::PairStatement& statement);
  // An HCA of the connection reported an event. Returns whether recovery deals with it, so that the
  // connection goes on.
  bool on_event(const HcaContext& hca, const ibv_async_event& event);
  // Once, after on_event() may be called: looks at what the rails' HCAs and ports have reported
  // before. Any thread. May block.
  void look_at_rails();
  // Whether all pairs that are usable are on ports that are down, one of them on this port: the
  // connection waits for the HCA's retries.
  bool waits_for_port(const HcaContext& hca, int port) const;
  const ConnectionOptions& options() const { return state_.io.options(); }

  // ---- threads for calls that may block
  // What on_tick() found to be due of these rails, a bit each. One thread for each HCA.
  // Moves QPs to ERROR.
  void stop_pairs(uint32_t rails);
  // Queries ports and revives pairs. Blocks while firmware does not answer, and while the kernel
  // resolves an address, a second or so for each pair.
  void revive_pairs(RecoveryTime now, uint32_t rails);

 private:
  RecoveryState& state_;
};

}  // namespace gdr::transport

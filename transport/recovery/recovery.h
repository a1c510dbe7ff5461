// The recovery of the pairs of one connection: what both ends of a pair do from its failure until
// it is used again. docs/wire-protocol.md explains the protocol, docs/threads.md who calls what.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/recovery/recovery_state.h"
#include "transport/recovery/recovery_steps.h"
#include "transport/recovery/standby_pairs.h"

namespace gdr::transport {

// A pair that is lost from the start, and why.
struct LostAtStart {
  uint32_t pair;
  PairCause cause;
};

// Shared by the data path and the watcher of one connection: this class is what the data path and
// the connection call, RecoverySteps what the watcher calls. Thread-safe by a mutex, which the data
// path takes only where something has failed or has_news().
//
// Pairs are used in epoch 0 from the start, all of them: those that could not be connected are the
// first news. For each pair, news come in the order kLost, kAgreed, kReturned. If a pair is
// lost again before the data path has taken kReturned, kLost is not repeated, unless the data path
// has reported data of the new epoch (on_early_data): then kReturned is left out.
//
// A sender that takes kAgreed checks acknowledged <= arrived <= posted of the pair; anything else
// fails the connection. Chunks below `arrived` are complete, the others go over other pairs.
// Completions of the pair that it has not polled by then belong to an epoch that ended, and count
// for nothing. A receiver announces those buffers again whose last announcement went over the pair.
class Recovery {
 public:
  using Clock = RecoveryState::Clock;

  static constexpr int kReservedSends = transport::kReservedSends;

  // recovers: both ends do. Otherwise there are only counters; the owner fails the connection for
  // every failure.
  Recovery(PairIo io, bool recovers, RecoveryHooks hooks)
      : state_(std::move(io), recovers, std::move(hooks)) {}

  bool recovers() const { return state_.recovers; }
  // Once, before all that follows. lost: pairs that the handshake could not connect; their owner
  // has logged why. A sender probes the standby pairs that are connected.
  void begin(std::shared_ptr<PeerLink> link, const std::vector<LostAtStart>& lost);

  // ---- data path (the comm's thread)
  // One load, for every poll.
  bool has_news() const { return state_.has_news.load(std::memory_order_acquire); }
  // Returns the next news; nothing when there are none. Destroys QPs of lost pairs that cannot be
  // moved to ERROR: only here is it certain that the data path does not use them.
  std::optional<PairNews> next_news();
  // The data path has done what kAgreed asks for. has_lost: at the sender, chunks have to be sent
  // again.
  void finish(uint32_t pair, bool has_lost);
  // Why a pair was lost, for a text. Until finish().
  RailLoss lost_pair(uint32_t pair) const;

  // A work request on a pair failed; the status is one that loses the pair (classify_failure). Of
  // an earlier epoch: ignored.
  void on_failed_work(const WorkId& id, ibv_wc_status status);
  // A work request could not be posted on the pair.
  void on_failed_post(uint32_t pair, uint32_t epoch);
  // Polling the CQ of a rail failed.
  void on_failed_poll(uint32_t rail);
  // A flush over a rail failed, without which no data may come over it.
  void on_failed_flush(uint32_t rail, ibv_wc_status status);
  // Sender: chunks of the pair's path were late again and again, at last by so much; the path is
  // avoided.
  void on_late_chunks(uint32_t pair, std::chrono::milliseconds lateness) const;
  // A probe or a statement has been written (WorkKind::kProbe, kStatement).
  void on_written(const WorkId& id) { on_failed_work(id, IBV_WC_SUCCESS); }
  // Posts a probe on a usable pair, for a link whose socket is lost (PeerLink::probe_wanted).
  // Returns false where none can be posted.
  bool probe_peer();

  PairArrivals& arrivals(uint32_t pair) { return state_.arrivals[pair]; }
  CompletionQueues& queues() { return state_.queues; }
  // Receiver: data has arrived in an epoch of the pair of which next_news() has not yet returned
  // kReturned. Once is enough in each epoch. From here on the loss of the pair is news, as the data
  // path uses what belongs to it: flushes read over its rail.
  void on_early_data(uint32_t pair);
  // Receiver: data has used up a batch of the pair's receives, which is not replaced as the pair
  // is lost (PairArrivals). An HCA has no receive to flush where this was the last one.
  void on_consumed(uint32_t pair);
  // awaited: as CompletionQueues::awaited_empty() was before the poll.
  void on_empty_queue(uint32_t rail, uint32_t awaited);

  // ---- any thread
  // By rail of this end.
  RailCounters& counters(uint32_t rail) const { return state_.counters[rail]; }
  // The HCA of a rail is gone. Returns whether the connection goes on, over other rails.
  bool on_lost_hca(uint32_t rail);
  // This end gives a rail up for good, on which it could not create or register something, with
  // that errno value, and has logged why. Returns whether it did: not where no other rail is usable
  // or may return.
  bool withdraw_rail(uint32_t rail, int err);
  // Whether the pair has a QP at this end.
  bool has_queue_pair(uint32_t pair) const;
  // Whether nothing goes over the rail any more: its HCA is gone, or it was withdrawn.
  bool is_given_up(uint32_t rail) const;
  // The connection has failed (PeerLink::fail_link): its QPs are to be stopped. Otherwise the next
  // tick finds that out.
  void on_failed_connection() {
    report(state_, [](RecoveryTime) {});
  }
  // Nothing touches a QP, a rail or the tables from here on. Idempotent.
  void close();
  // ", lost: mlx5_1:1 <-> mlx5_1:1 (RETRY_EXC_ERR), tried again from time to time" for the text of
  // a stalled connection: each pair that cannot be used, with the cause of its loss and what it
  // waits for; and each rail that is used although its port is down. "" where there are none, and
  // after close().
  std::string state_text() const;

  RecoverySteps& steps() { return steps_; }
  StandbyPairs& standby() { return standby_; }

 private:
  RecoveryState state_;
  RecoverySteps steps_{state_};
  StandbyPairs standby_{state_};
};

}  // namespace gdr::transport

// The recovery of the pairs of one connection: what both ends of a pair do from its failure until
// it is used again. docs/wire-protocol.md explains the protocol, docs/threads.md who calls what.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/memory/memory_handle.h"
#include "transport/pairs/work_id.h"
#include "transport/recovery/recovery_state.h"

namespace gdr::transport {

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
  // Whether all pairs that are usable are on ports that are down: the connection waits for the
  // HCA's retries.
  bool waits_for_a_port() const;

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

// What a connection gives up for others.
enum class Room : uint8_t {
  kNone,
  kAwaited,  // a queue pair, once the data path has finished with it
  kMade,     // a queue pair
};

// Called by any thread. See docs/several-rails.md, "Standby pairs that give way".
class StandbyPairs {
 public:
  explicit StandbyPairs(RecoveryState& state) : state_(state) {}

  // Gives up a standby pair that is usable, on that HCA or on any, and destroys its QP, and with
  // the last one all else that the rail has at this end: at once where the data path never used it
  // and NCCL has nothing outstanding here; if_busy, where NCCL has, once the ends have agreed on
  // the loss. Nothing where no active pair is usable.
  Room give_way(const HcaContext* hca, bool if_busy);
  // The queue pair of a flush is about to be made on the rail. Returns whether the rail has its
  // completion queue, which is not given back from here on.
  bool keep_queue(uint32_t rail);
  // What is registered on standby rails; it ends with the last QP on the rail that gives way.
  const std::shared_ptr<StandbyRegistrations>& registrations() const { return registrations_; }

 private:
  using Known = RecoveryState::Known;
  using Pair = RecoveryState::Pair;

  // With the mutex.
  bool is_active_usable() const;
  bool may_give_way(const Pair& pair, bool if_busy) const;
  bool is_unused(const Pair& pair) const;
  void give_back_rail(uint32_t rail, RecoveryLock& lock);
  bool is_rail_needed(uint32_t rail) const;

  RecoveryState& state_;
  const std::shared_ptr<StandbyRegistrations> registrations_ =
      std::make_shared<StandbyRegistrations>();
  uint32_t kept_queues_ = 0;  // bit per rail: see keep_queue(); with the mutex
};

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
// A sender that takes kAgreed checks what has arrived (check_arrived()), and sends the rest over
// other pairs. Completions of the pair that it has not polled by then count for nothing. A receiver
// whose clear-to-send went over the pair announces again what is incomplete.
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
  // The data path has done what kAgreed asks for.
  void finish(uint32_t pair);
  // Why a pair was lost, for a text. Until finish().
  RailLoss lost_pair(uint32_t pair) const;

  // A work request on a pair failed; the status is one that loses the pair (loses_pair). Of
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
  // Nothing touches a QP, a rail or the tables from here on. Idempotent.
  void close();
  // ", mlx5_1:1 <-> nodeB mlx5_1:1 is lost (RETRY_EXC_ERR), tried again from time to time" for the
  // text of a stalled connection: each pair that cannot be used, with the cause of its loss and
  // what it waits for; and each that is used although its port is down. "" where there are none,
  // and after close().
  std::string state_text() const;

  RecoverySteps& steps() { return steps_; }
  StandbyPairs& standby() { return standby_; }

 private:
  using Known = RecoveryState::Known;
  using Pair = RecoveryState::Pair;

  RecoveryState state_;
  RecoverySteps steps_{state_};
  StandbyPairs standby_{state_};
};

}  // namespace gdr::transport

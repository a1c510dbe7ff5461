// The recovery of the pairs of one connection: what both ends of a pair do from its failure until
// it is used again. docs/wire-protocol.md explains the protocol, docs/threads.md who calls what.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "transport/link/peer_link.h"
#include "transport/link/rail_use.h"
#include "transport/memory/standby_registrations.h"
#include "transport/pairs/failure_class.h"
#include "transport/pairs/rail_counters.h"
#include "transport/pairs/work_id.h"
#include "transport/recovery/pair_agreement.h"
#include "transport/recovery/pair_io.h"
#include "transport/recovery/recovery_rules.h"
#include "transport/recovery/recovery_text.h"

namespace gdr::transport {

class SlowPaths;

// What the data path has to do about a pair.
struct PairNews {
  enum class Kind : uint8_t {
    kLost,      // post nothing on the pair any more; what is posted on it stays undecided
    kAgreed,    // take over what is missing (see Recovery), then call Recovery::finish
    kReturned,  // post on the pair again, from its first chunk on
  };
  Kind kind;
  uint32_t pair;
  uint32_t epoch;    // kLost, kAgreed: the epoch that ended; kReturned: the one that begins
  uint64_t arrived;  // kAgreed, at the sender: how many immediates arrived in that epoch
};

// A pair that is lost from the start, and why.
struct LostAtStart {
  uint32_t pair;
  PairCause cause;
};

// What a connection gives up for others (Recovery::give_way).
enum class Room : uint8_t {
  kNone,
  kAwaited,  // a queue pair, once the data path has finished with it
  kMade,     // a queue pair
};

// How a recovery reaches the rest of the process. Each may be called by any thread, with the
// recovery's mutex held.
struct RecoveryHooks {
  std::function<void()> wake_watcher;  // on_tick() has to be called soon
  // For each loss of a pair, once more when what it moves becomes known later, and for each return:
  // to be logged once for all connections that share the rail. port and peer: as in RailLoss.
  std::function<void(const RailLoss& loss)> rail_lost;
  std::function<void(const std::string& port, const std::string& peer)> rail_returned;
  // Chunks on a rail were late by so much, again and again, so that it is avoided: to be logged
  // likewise. port and peer: as in RailLoss. May be null.
  std::function<void(const std::string& port, const std::string& peer,
                     std::chrono::milliseconds lateness)>
      rail_late = nullptr;
  // A rail has not returned for a minute or more although its port is active: to be logged
  // likewise, once until it does. reason: with its fix. port and peer: as in RailLoss. May be null.
  std::function<void(const std::string& port, const std::string& peer, const Error& reason)>
      rail_stays_lost = nullptr;
  // A pair on a port of this end, "mlx5_0:1", was lost or is late: the port's hardware counters may
  // show why. May be null.
  std::function<void(const std::string& port)> port_suspected = nullptr;
  // A rail was lost, maybe since its port does not have that address any more. May be null.
  std::function<void(const Device& device, const wire::RailAddress& address)> address_suspected =
      nullptr;
};

// Shared by the data path and the watcher of one connection. Thread-safe by a mutex, which the data
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
  using Clock = PeerLink::Clock;

  // Entries of each QP's send queue that the data path leaves to probes and statements.
  static constexpr int kReservedSends = 8;
  // Those of them that statements and probes may occupy. The last is for the marker that ends the
  // send queue of a lost pair.
  static constexpr int kReservedWrites = kReservedSends - 1;

  // recovers: both ends do. Otherwise there are only counters; the owner fails the connection for
  // every failure.
  Recovery(PairIo io, bool recovers, RecoveryHooks hooks);

  bool recovers() const { return recovers_; }
  // Once, before all that follows. lost: pairs that the handshake could not connect; their owner
  // has logged why. A sender probes the standby pairs that are connected.
  void begin(std::shared_ptr<PeerLink> link, const std::vector<LostAtStart>& lost);

  // ---- data path (the comm's thread)
  // One load, for every poll.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  // Returns the next news; nothing when there are none. Destroys QPs of lost pairs that cannot be
  // moved to ERROR: only here is it certain that the data path does not use them.
  std::optional<PairNews> next_news();
  // The data path has done what kAgreed asks for.
  void finish(uint32_t pair, const MovedWork& moved);

  // Why a pair was lost, for a text. Until finish().
  LostPair lost_pair(uint32_t pair) const;

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
  void on_written(const WorkId& id);
  // Posts a probe on a usable pair, for a link whose socket is lost (PeerLink::probe_wanted).
  // Returns false where none can be posted.
  bool probe_peer();

  // What has arrived on a pair, at the receiver; at the sender, what was acknowledged. A cache line
  // each: the data path writes one per message.
  struct alignas(64) Arrivals {
    std::atomic<uint64_t> count{0};
    std::atomic<uint32_t> epoch{0};     // modulo 2^16, as in a WorkId; or kCounted
    std::atomic<uint64_t> receives{0};  // that were posted
    std::atomic<bool> stopped{false};   // see is_stopped()

    // Receiver: counts an immediate that arrived, with the epoch of its WorkId. Returns false where
    // it must not arrive any more, as this end has stated how many there were: the connection has
    // to fail.
    [[gnu::always_inline]] bool count_one(uint32_t in_epoch) {
      if (epoch.load(std::memory_order_acquire) != in_epoch) [[unlikely]]
        return false;
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      return true;
    }
  };
  Arrivals& arrivals(uint32_t pair) { return arrivals_[pair]; }
  // Receiver: data has arrived in an epoch of the pair of which next_news() has not yet returned
  // kReturned. Once is enough in each epoch. From here on the loss of the pair is news, as the data
  // path uses what belongs to it: flushes read over its rail.
  void on_early_data(uint32_t pair);
  // Receiver: whether this end has begun to move the QP to ERROR. No more receives are posted then:
  // not every driver flushes those.
  bool is_stopped(uint32_t pair) const {
    return arrivals_[pair].stopped.load(std::memory_order_acquire);
  }
  // Receiver: data has used up a batch of the pair's receives, which is not replaced as the pair
  // is_stopped(). An HCA has no receive to flush where this was the last one.
  void on_consumed(uint32_t pair);
  // Receiver: further receives were posted on the pair. Negative, before begin(): fewer than on
  // the others.
  void count_receives(uint32_t pair, int count) {
    std::atomic<uint64_t>& receives = arrivals_[pair].receives;
    receives.store(receives.load(std::memory_order_relaxed) + static_cast<uint64_t>(count),
                   std::memory_order_relaxed);
  }
  // Sender: where it keeps how many chunks of the pair are acknowledged in its epoch. A sender
  // whose requests are complete is not called any more, so that only the watcher finds that
  // acknowledged data was lost.
  std::atomic<uint64_t>& acknowledged(uint32_t pair) { return arrivals_[pair].count; }
  // Whether the CQ of a rail has to be found empty, which completes the count of what arrived over
  // QPs that flush nothing. Loaded before a poll, since only a poll that begins after the QP was
  // stopped shows that nothing more is to come: 0, or what on_empty_queue() takes where that poll
  // returns nothing.
  uint32_t awaited_empty_queue() const { return awaits_empty_.load(std::memory_order_acquire); }
  void on_empty_queue(uint32_t rail, uint32_t awaited);

  // The data path's use of completion queues, one at a time. While it lives, those of the rails
  // that it has exist; the others were given back, or are about to be. It takes no lock: who gives
  // a queue back takes it out of queues_ first, and then waits for the end of the use that has
  // begun before (give_back_rail). Each of the two stores before it loads what the other one
  // stores, in one order for all (seq_cst), so that one of them at least sees the other.
  class UseOfQueues {
   public:
    explicit UseOfQueues(Recovery& recovery)
        : uses_(recovery.uses_of_queues_), before_(uses_.load(std::memory_order_relaxed)) {
      if (counts()) uses_.store(before_ + 1, std::memory_order_seq_cst);
      rails_ = recovery.queues_.load(std::memory_order_seq_cst);
    }
    ~UseOfQueues() {
      if (counts()) uses_.store(before_ + 2, std::memory_order_release);
    }
    UseOfQueues(const UseOfQueues&) = delete;
    UseOfQueues& operator=(const UseOfQueues&) = delete;

    bool has(uint32_t rail) const { return (rails_ >> rail & 1) != 0; }

   private:
    bool counts() const { return before_ % 2 == 0; }

    std::atomic<uint32_t>& uses_;
    const uint32_t before_;
    uint32_t rails_;
  };
  // The queue pair of a flush is about to be made on the rail. Returns whether the rail has its
  // completion queue, which is not given back from here on.
  bool keep_queue(uint32_t rail);

  // ---- any thread
  // By rail of this end.
  RailCounters& counters(uint32_t rail) { return counters_[rail]; }
  const RailCounters& counters(uint32_t rail) const { return counters_[rail]; }
  // The HCA of a rail is gone. Returns whether the connection goes on, over other rails.
  bool on_lost_hca(uint32_t rail);
  // This end gives a rail up for good, on which it could not create or register something, with
  // that errno value, and has logged why. Returns whether it did: not where no other rail is usable
  // or may return.
  bool withdraw_rail(uint32_t rail, int err);
  // Whether the pair has a QP at this end.
  bool has_queue_pair(uint32_t pair) const;
  // Gives up a standby pair that is usable, on that HCA or on any, and destroys its QP, and with
  // the last one all else that the rail has at this end: at once where the data path never used it
  // and NCCL has nothing outstanding here; if_busy, where NCCL has, once the ends have agreed on
  // the loss. Nothing where no active pair is usable.
  Room give_way(const HcaContext* hca, bool if_busy);
  // What is registered on standby rails; it ends with the last QP on the rail that gives way.
  const std::shared_ptr<StandbyRegistrations>& standby_registrations() const {
    return standby_registrations_;
  }
  // Whether nothing goes over the rail any more: its HCA is gone, or it was withdrawn.
  bool is_given_up(uint32_t rail) const;
  // The connection has failed (PeerLink::fail_link): its QPs are to be stopped. Otherwise the next
  // tick finds that out.
  void on_failed_connection();
  // Nothing touches a QP, a rail or the tables from here on. Idempotent.
  void close();
  // What has gone over each rail of this end, in their order; nothing after close().
  std::vector<RailUse> rail_use() const;
  // ", lost: mlx5_1:1 <-> mlx5_1:1 (RETRY_EXC_ERR), tried again from time to time" for the text of
  // a stalled connection: each pair that cannot be used, with the cause of its loss and what it
  // waits for; and each rail that is used although its port is down. "" where there are none, and
  // after close().
  std::string state_text() const;

  // ---- watcher thread
  // Calls that are due, and may block. Each was asked for once, and is made by another thread.
  struct Due {
    struct Stop {
      uint32_t pair;
      const HcaContext* hca;
    };
    std::vector<Stop> stops;  // stop()
    uint32_t revives = 0;     // bit per rail: revive_pairs()
    // Of those rails, which no longer exist after close().
    std::array<const HcaContext*, wire::kMaxRails> hcas{};
  };
  // Called about once a second, and at deadline().
  Due on_tick(Clock::time_point now);
  // Nobody makes what is left of those calls: there is no memory. The next tick asks again.
  void take_back(const Due& due);
  // When on_tick must be called at the latest; Clock::time_point::max() when nothing is due.
  Clock::time_point deadline() const {
    return Clock::time_point(Clock::duration(deadline_.load(std::memory_order_acquire)));
  }
  // The peer's statement, which came over the socket.
  void on_statement(const wire::PairStatement& statement);
  // Once, after on_event() may be called: looks at what the rails' HCAs and ports have reported
  // before. Any thread. May block.
  void look_at_rails();
  // An HCA of the connection reported an event. Returns whether recovery deals with it, so that the
  // connection goes on.
  bool on_event(const HcaContext& hca, const ibv_async_event& event);
  // Whether all pairs that are usable are on ports that are down, one of them on this port: the
  // connection waits for the HCA's retries.
  bool waits_for_port(const HcaContext& hca, int port) const;
  const ConnectionOptions& options() const { return io_.options(); }

  // ---- threads for calls that may block
  // Moves a QP to ERROR, as on_tick() found it to be due.
  void stop(uint32_t index);
  // Queries ports and revives pairs, as on_tick found them to be due. Blocks while firmware does
  // not answer, and while the kernel resolves an address, a second or so for each pair; not for a
  // pair whose path is paused in `slow`.
  // rails: bit per rail. Several threads may do so for other rails.
  void revive_pairs(Clock::time_point now, SlowPaths& slow, uint32_t rails = ~0u);

 private:
  static constexpr uint32_t kEpochMask = 0xffff;
  static constexpr uint32_t kCounted = 0x10000;  // Arrivals::epoch: nothing may arrive any more

  // How much of a loss the data path knows. kReceives: it does not know of the return yet, and has
  // taken data that came after it.
  enum class Known : uint8_t { kUsing, kLost, kAgreed, kFinished, kReceives };
  struct Pair {
    explicit Pair(PairAgreement a) : agreement(a) {}
    PairAgreement agreement;
    Known known = Known::kUsing;
    std::optional<PairNews> missed;    // kAgreed, as it was at act_for_data_path()
    bool stopping = false;             // stop() is to move the QP to ERROR, or does
    bool stopped = false;              // it is in ERROR, in this epoch
    bool flush_seen = false;           // receiver: all arrivals are counted
    bool counted = false;              // and stated
    bool drained = false;              // nothing of the epoch that ended is left in the CQ
    bool marker_posted = false;        // in this epoch; false where the HCA refused it
    bool marker_seen = false;          // the last completion of the send queue
    uint64_t flushed = 0;              // receives
    bool hopeless = false;             // its HCA or QP is gone, or the CQ cannot be polled
    bool destroying = false;           // its QP, which another thread has taken out for that
    int stop_error = 0;                // errno value with which the QP was not moved to ERROR
    Clock::time_point stop_at{};       // when to try that again
    uint32_t awaits_empty = 0;         // awaits_empty_ since it is so of this pair; 0: it is not
    bool reviving = false;             // revive_pairs() is to revive it, or does
    bool withdrawn = false;            // this end has given its rail up
    bool logged = false;               // the loss, since the pair was used last
    bool revival_logged = false;       // a revival that failed, since then
    Clock::time_point unused_since{};  // with `logged`
    int reserved = 0;                  // entries of its send queue in use by probes and statements
    std::optional<uint32_t> stated_over;  // the pair that may still read the statement about this
    std::optional<Clock::time_point> flushed_at;  // in ERROR; the cause is still to be seen
    std::optional<Clock::time_point> lost_at;
    Clock::time_point revived_at{};
    Clock::time_point state_at{};        // when to repeat its statement
    std::chrono::milliseconds pause{0};  // before the next repetition
  };

  // Gives the mutex up while it lives; close() waits for its end.
  struct UseOfRails {
    UseOfRails(Recovery* of, std::unique_lock<std::mutex>* its) : recovery(of), lock(its) {
      ++recovery->uses_of_rails_;
      lock->unlock();
    }
    ~UseOfRails() {
      lock->lock();
      --recovery->uses_of_rails_;
      recovery->unused_.notify_all();
    }
    UseOfRails(const UseOfRails&) = delete;
    UseOfRails& operator=(const UseOfRails&) = delete;

    Recovery* recovery;
    std::unique_lock<std::mutex>* lock;
  };

  void prove_standby();
  Clock::time_point now() const { return io_.options().now(); }
  void run(Clock::time_point now);
  void take_steps(Clock::time_point now);
  void advance(uint32_t index, Clock::time_point now);
  void note_loss(uint32_t index, Clock::time_point now);
  bool is_stop_due(uint32_t index, Clock::time_point now) const;
  std::vector<Due::Stop> claim_stops(Clock::time_point now);
  void claim_stop(uint32_t index);
  void stop_claimed(uint32_t index, std::unique_lock<std::mutex>& lock);
  void on_stopped(uint32_t index, Clock::time_point now);
  static bool has_to_be_destroyed(const Pair& pair);
  void destroy(uint32_t index, std::unique_lock<std::mutex>& lock);
  int destroy_queue_pair(uint32_t index, std::unique_lock<std::mutex>& lock);
  bool is_active_usable() const;
  bool may_give_way(uint32_t index, bool if_busy) const;
  void give_back_rail(uint32_t rail, std::unique_lock<std::mutex>& lock);
  bool is_rail_needed(uint32_t rail) const;
  bool are_queues_left() const;
  bool is_unused(uint32_t index) const;
  void withdraw(uint32_t index, int err);
  void count_if_possible(uint32_t index, Clock::time_point now);
  void post_marker(uint32_t index);
  bool is_drained(uint32_t index);
  uint32_t claim_revivals(Clock::time_point now);
  bool may_revive(uint32_t index, Clock::time_point now, const SlowPaths& slow,
                  std::unique_lock<std::mutex>& lock);
  bool is_most_likely_in_vain(uint32_t index, Clock::time_point now, const SlowPaths& slow) const;
  void revive(uint32_t index, Clock::time_point now, SlowPaths& slow,
              std::unique_lock<std::mutex>& lock);
  Result<wire::PortAddress> connect_again(uint32_t index, const wire::PortAddress& peer,
                                          std::unique_lock<std::mutex>& lock);
  void stop_again(uint32_t index, std::unique_lock<std::mutex>& lock);
  void probe(uint32_t index);
  void check_arrivals(uint32_t index);
  bool acts_for_data_path() const;
  void act_for_data_path(Clock::time_point now, std::unique_lock<std::mutex>& lock);
  static bool is_statement_due(const Pair& pair, Clock::time_point now);
  void state(uint32_t index, Clock::time_point now);
  bool is_being_written(const Pair& pair) const;
  void end_statement(const WorkId& id);
  std::optional<uint32_t> choose_carrier();
  wire::PairReason reason_of(const WorkId& id) const;
  void lose_rail(uint32_t rail, PairCause cause);
  void lose_hca(const HcaContext& hca);
  void lose_queue_pair(const ibv_qp& qp, uint32_t rail);
  bool lose_idle_pair(const ibv_qp& qp);
  std::optional<uint32_t> pair_of(const ibv_qp& qp) const;
  void lose_for_good(uint32_t index, const PairCause& cause);
  std::optional<uint32_t> rail_of(const ibv_cq* cq) const;
  void give_up(uint32_t index);
  void give_up_rail(uint32_t rail);
  void lose_device_of(uint32_t index);
  void set_port(uint32_t rail, bool active);
  bool is_usable_beside(uint32_t rail) const;
  void lose_ports_that_are_down();
  std::vector<uint32_t> ports_to_query(Clock::time_point now) const;
  void query_ports(Clock::time_point now, uint32_t rails, std::unique_lock<std::mutex>& lock);
  std::optional<bool> query_port(uint32_t index, std::unique_lock<std::mutex>& lock);
  void read_statements(Clock::time_point now);
  void take_statement(const wire::PairStatement& statement, Clock::time_point now);
  void fail_if_none_is_left(Clock::time_point now);
  LostPair describe_pair(uint32_t index) const;
  bool is_any_usable() const;
  static bool may_return(const Pair& pair);
  bool is_used(uint32_t rail) const;
  std::string awaited_text(uint32_t index) const;
  bool needs_no_pair() const;
  static bool is_finished(const Pair& pair) {
    return pair.known == Known::kFinished || pair.missed;
  }
  bool is_too_late(Clock::time_point now) const;
  Clock::time_point deadline_of(const Pair& pair, Clock::time_point now) const;
  void update_deadline(Clock::time_point now);
  static std::optional<PairNews::Kind> news_of(const Pair& pair);
  void await_empty_queues();
  void set_attention();
  void log_loss(uint32_t index, const MovedWork* moved);
  RailLoss describe_loss(uint32_t index, const MovedWork* moved) const;
  std::vector<std::string> usable_ports(uint32_t but) const;
  bool is_explained(uint32_t index) const;
  void log_failed_revival(uint32_t index, const Error& reason, Clock::time_point now);
  void log_return(uint32_t index);
  void fail(Code code, const std::string& what);

  const PairIo io_;
  const bool recovers_;
  const RecoveryHooks hooks_;
  const Clock::duration patience_;            // without a usable pair
  std::unique_ptr<RailCounters[]> counters_;  // by rail
  std::unique_ptr<Arrivals[]> arrivals_;      // by pair
  const std::shared_ptr<StandbyRegistrations> standby_registrations_ =
      std::make_shared<StandbyRegistrations>();
  std::atomic<bool> has_news_{false};
  std::atomic<uint32_t> awaits_empty_{0};  // 0: no pair does; else when the last one began to
  // Odd while there is a UseOfQueues; for good, so that it stores nothing, where no rail stands by.
  std::atomic<uint32_t> uses_of_queues_{1};
  std::atomic<uint32_t> queues_{~0u};  // bit per rail: the data path may use its CQ
  std::atomic<Clock::rep> deadline_{Clock::duration::max().count()};

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable unused_;
  bool closed_ = false;
  int uses_of_rails_ = 0;         // threads that use a QP or an HCA without the mutex
  uint32_t asked_to_revive_ = 0;  // bit per rail: revive_pairs() has not begun since
  std::shared_ptr<PeerLink> link_;
  std::vector<Pair> pairs_;
  std::vector<bool> port_down_;  // by rail: as the last event or query showed
  std::array<Clock::time_point, wire::kMaxRails> ports_at_{};  // by rail: when to query the port
  uint32_t port_events_ = 0;
  uint32_t kept_queues_ = 0;  // bit per rail: see keep_queue()
  uint32_t awaits_ = 0;       // how often a pair began to await an empty CQ
  std::optional<Clock::time_point> none_usable_since_;
  uint32_t carrier_ = 0;  // the pair that carried the last statement
  std::optional<uint32_t>
      peer_probe_on_;  // the pair of probe_peer's probe, while it is outstanding
};

}  // namespace gdr::transport

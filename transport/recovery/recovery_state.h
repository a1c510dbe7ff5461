// What the parts of a Recovery share: the table of the pairs of one connection and of its rails,
// with the mutex that guards them. (A pair, an epoch, a rail: docs/glossary.md.)
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/link/peer_link.h"
#include "transport/pairs/rail_set.h"
#include "transport/recovery/completion_queues.h"
#include "transport/recovery/pair_agreement.h"
#include "transport/recovery/pair_io.h"
#include "transport/recovery/rail_log.h"

namespace gdr::transport {

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

// How a recovery reaches the rest of the process, from any thread, with the recovery's mutex held.
struct RecoveryHooks {
  std::function<void()> wake_watcher;  // on_tick() has to be called soon
  RailLog* rails;                      // outlives the recovery
};

// What has arrived on a pair, at the receiver; at the sender, what was acknowledged. A cache line
// each: the data path writes one per message.
struct alignas(64) PairArrivals {
  static constexpr uint32_t kEpochMask = 0xffff;
  static constexpr uint32_t kCounted = 0x10000;  // epoch: nothing may arrive any more

  // Sender: the data path keeps here how many chunks of the pair are acknowledged in its epoch. A
  // sender whose requests are complete is not called any more, so that only the watcher finds that
  // acknowledged data was lost.
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> epoch{0};      // modulo 2^16, as in a WorkId; or kCounted
  std::atomic<uint64_t> receives{0};   // that were posted
  std::atomic<bool> lost{false};       // see is_lost()
  std::atomic<bool> announces{false};  // receiver: clear-to-send goes over it

  // Receiver: counts an immediate that arrived, with the epoch of its WorkId. Returns false where
  // it must not arrive any more, as this end has stated how many there were: the connection has to
  // fail.
  [[gnu::always_inline]] bool count_one(uint32_t in_epoch) {
    if (epoch.load(std::memory_order_acquire) != in_epoch) [[unlikely]]
      return false;
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
  }
  // Receiver: further receives were posted on the pair. Negative, before Recovery::begin(): fewer
  // than on the others.
  void count_receives(int more) {
    receives.store(receives.load(std::memory_order_relaxed) + static_cast<uint64_t>(more),
                   std::memory_order_relaxed);
  }
  // Receiver: whether the pair is lost. No more receives are posted then: not every driver flushes
  // those of a QP in ERROR.
  bool is_lost() const { return lost.load(std::memory_order_acquire); }
  // Receiver: whether data has come over the pair, or clear-to-send goes over it.
  bool is_used() const { return announces || count.load(std::memory_order_acquire) != 0; }
};

// Entries of each QP's send queue that the data path leaves to probes and statements.
inline constexpr int kReservedSends = 8;
// Those of them that statements and probes may occupy. The last is for the marker that ends the
// send queue of a lost pair.
inline constexpr int kReservedWrites = kReservedSends - 1;

// Where a pair is at this end, from its use to its return. recovery_steps.cc has what is done in
// each phase.
enum class PairPhase : uint8_t {
  kUsing,      // the data path may post on it
  kReturning,  // connected again, and not used before both ends have seen each other's probe
  kLosing,     // lost at one of the ends, and its QP not in ERROR yet
  kAgreeing,   // in ERROR; the ends agree on what has arrived
  kDraining,   // agreed on; the data path has not finished, or the CQ has something of the epoch
  kResting,    // waits for the next attempt to connect it again
  kReviving,   // is being connected again
  kGivenUp,    // does not return to this connection
};

// The mutex guards all members behind it. Who holds it gives it up in an Unlocked only.
struct RecoveryState {
  using Clock = PeerLink::Clock;
  using Lock = std::unique_lock<std::mutex>;

  // How much of a loss the data path knows. kReceives: it does not know of the return yet, and has
  // taken data that came after it.
  enum class Known : uint8_t { kUsing, kLost, kAgreed, kFinished, kReceives };
  // Who has the QP of a pair.
  enum class Holder : uint8_t {
    kDataPath,   // which posts on it
    kStopper,    // which moves it to ERROR
    kDestroyer,  // which has taken it out of the pair
    kNobody,     // it is in ERROR, in this epoch, or gone
    kReviver,    // which connects it again
  };
  // What is left of an epoch in the send queue and the CQ.
  enum class Rest : uint8_t {
    kSome,
    kMarked,  // the marker is posted behind everything else; back to kSome where the HCA refuses
    kSent,    // the marker has completed: the send queue is empty
    kNothing,
  };
  // Whether a pair returns to this connection, as far as this end decides on that.
  enum class Outlook : uint8_t {
    kReturns,
    kWithdrawn,  // this end has given its rail up
    kHopeless,   // its HCA or QP is gone, or the CQ cannot be polled
  };
  // What is logged since the pair was used last.
  enum class Logged : uint8_t { kNothing, kLoss, kFailedReturn };

  struct Pair {
    Pair(const PairIo& io, uint32_t i, PairArrivals& its)
        : index(i),
          rail(io.at(i).rail),
          stands_by(io.at(i).standby),
          arrivals(its),
          agreement(io.end(), static_cast<uint16_t>(i)) {}

    PairPhase phase() const;
    // The news that the data path has to take next.
    std::optional<PairNews::Kind> news() const;
    // An HCA that is gone has to be opened anew, and a rail that an end has withdrawn is not tried
    // again.
    bool may_return() const;
    bool is_finished() const { return known == Known::kFinished || missed; }
    bool is_stopped() const { return holder >= Holder::kNobody; }
    bool is_hopeless() const { return outlook == Outlook::kHopeless; }
    // The QP could not be moved to ERROR, and the data path does not use it any more.
    bool has_to_be_destroyed() const {
      return stop_error != 0 && holder != Holder::kStopper && known != Known::kUsing;
    }
    void give_up();
    // It is connected in its next epoch.
    void begin_epoch(Clock::time_point now);

    const uint32_t index;
    const uint32_t rail;
    const bool stands_by;
    PairArrivals& arrivals;
    PairAgreement agreement;
    Known known = Known::kUsing;
    std::optional<PairNews> missed;  // kAgreed, as it was when the watcher acted for the data path
    Holder holder = Holder::kDataPath;
    Rest rest = Rest::kSome;
    Outlook outlook = Outlook::kReturns;
    int stop_error = 0;           // errno value with which the QP was not moved to ERROR
    Clock::time_point stop_at{};  // when to try that again
    bool flush_seen = false;      // receiver: all arrivals are counted
    bool counted = false;         // and stated
    uint64_t flushed = 0;         // receives
    uint32_t awaits_empty = 0;  // the count of `awaits` since it awaits an empty CQ; 0: it does not
    std::optional<Clock::time_point> flushed_at;  // in ERROR; the cause is still to be seen
    std::optional<Clock::time_point> lost_at;
    Clock::time_point revived_at{};
    // loss_log.cc
    Logged logged = Logged::kNothing;
    Clock::time_point unused_since{};
    // statements.cc
    int reserved = 0;  // entries of its send queue in use by probes and statements
    std::optional<uint32_t> stated_over;  // the pair that may still read the statement about this
    Clock::time_point state_at{};         // when to repeat its statement
    std::chrono::milliseconds pause{0};   // before the next repetition
  };
  struct Rail {
    bool port_down = false;        // as the last event or query showed
    Clock::time_point query_at{};  // when to query the port
  };

  RecoveryState(PairIo its, bool both_recover, RecoveryHooks its_hooks);

  Clock::time_point now() const { return io.options().now(); }
  bool sends() const { return io.end() == PairEnd::kSender; }
  bool is_any_usable() const;
  // Whether no pair has been usable for so long that the connection does not wait any more. The
  // probe of a pair that is revived late would only delay the end.
  bool is_too_late(Clock::time_point now) const;
  bool is_port_down(const Pair& pair) const {
    return rails[pair.rail].port_down && !io.is_rail_missing(pair.index);
  }
  const Device& device(uint32_t rail) const { return io.rails()[rail].device(); }
  // Where that is not set, a connection with one active rail takes no look at anything else.
  void set_attention();
  // Fails the connection at both ends.
  void fail(Code code, const std::string& what) const;

  const PairIo io;
  const bool recovers;
  const RecoveryHooks hooks;
  const Clock::duration patience;            // without a usable pair
  std::unique_ptr<RailCounters[]> counters;  // by rail
  std::unique_ptr<PairArrivals[]> arrivals;  // by pair
  CompletionQueues queues;
  std::atomic<bool> has_news{false};
  std::atomic<Clock::rep> deadline{Clock::duration::max().count()};

  mutable std::mutex mutex;
  std::condition_variable unused;
  bool closed = false;
  int uses = 0;  // Unlocked
  std::shared_ptr<PeerLink> link;
  std::vector<Pair> pairs;
  std::vector<Rail> rails;
  std::optional<Clock::time_point> none_usable_since;
  uint32_t port_events = 0;
  uint32_t awaits = 0;  // how often a pair began to await an empty CQ
  // Bit per rail: stop_pairs() or revive_pairs() was asked for, and has not begun since.
  uint32_t asked_to_stop = 0, asked_to_revive = 0;
  uint32_t carrier = 0;                   // the pair that carried the last statement
  std::optional<uint32_t> peer_probe_on;  // the pair of probe_peer's probe, while outstanding
};
using RecoveryTime = RecoveryState::Clock::time_point;
using RecoveryLock = RecoveryState::Lock;

// Gives the mutex up while it lives, to use a QP, a rail or an HCA without it: verbs may wait for
// firmware that does not answer. Recovery::close() waits for its end.
class Unlocked {
 public:
  using Holder = RecoveryState::Holder;

  // pair: whose QP has that holder meanwhile.
  Unlocked(RecoveryState& state, RecoveryState::Lock& lock, RecoveryState::Pair* pair = nullptr,
           Holder holder = Holder::kNobody)
      : state_(state), lock_(lock), pair_(pair) {
    if (pair_ != nullptr) before_ = std::exchange(pair_->holder, holder);
    ++state_.uses;
    lock_.unlock();
  }
  ~Unlocked() {
    lock_.lock();
    if (pair_ != nullptr) pair_->holder = before_;
    --state_.uses;
    state_.unused.notify_all();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  RecoveryState& state_;
  RecoveryState::Lock& lock_;
  RecoveryState::Pair* const pair_;
  Holder before_{};
};

}  // namespace gdr::transport

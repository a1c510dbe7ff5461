// How a Recovery ends an epoch of a pair: its QP is stopped or destroyed, what has arrived is
// counted, and nothing is left in the CQ.
#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <thread>
#include <utility>

#include "base/log.h"
#include "transport/recovery/recovery.h"
#include "transport/recovery/recovery_probes.h"

namespace gdr::transport {
namespace {

// The pause before a QP that was not moved to ERROR is tried again.
constexpr std::chrono::seconds kStopAgain{1};

// How long a rail's CQ that is given back waits for the data path to leave it, which takes
// microseconds unless its thread does not run; and how often is looked.
constexpr std::chrono::milliseconds kUsePatience{20};
constexpr std::chrono::microseconds kUsePause{50};

// How long a data path that is called takes for the news of a loss, at most.
constexpr std::chrono::seconds kTimeToTakeNews{1};

// ChunkCounts::posted, which only the data path knows.
constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

}  // namespace

// A connection that has failed stops all of them: a peer that has lost the socket learns of the
// failure by its own writes, which fail then.
bool Recovery::is_stop_due(uint32_t index, Clock::time_point now) const {
  const Pair& pair = pairs_[index];
  if (pair.stopping || pair.stopped || now < pair.stop_at) return false;
  return (pair.agreement.lost() || link_->failed()) && io_.has_queue_pair(index);
}

std::vector<Recovery::Due::Stop> Recovery::claim_stops(Clock::time_point now) {
  std::vector<Due::Stop> due;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    if (!is_stop_due(i, now)) continue;
    if (due.empty()) due.reserve(pairs_.size());  // before the first claim
    due.push_back({i, io_.rails()[io_.rail(i)].device().hca.get()});
    claim_stop(i);
  }
  return due;
}

void Recovery::claim_stop(uint32_t index) {
  pairs_[index].stopping = true;
  arrivals_[index].stopped.store(true, std::memory_order_release);
}

// A claim that was taken back may have been made again by another call, or done.
void Recovery::stop(uint32_t index) {
  std::unique_lock lock(mutex_);
  if (!closed_ && pairs_[index].stopping) stop_claimed(index, lock);
}

// Without the mutex: firmware may not answer. Until it has, the pair is lost and not down, and the
// data path may post on it. Where the HCA refuses, late packets could still arrive. The QP is then
// destroyed once the data path does not use it any more; until then the change is tried again from
// time to time.
void Recovery::stop_claimed(uint32_t index, std::unique_lock<std::mutex>& lock) {
  int err = 0;
  {
    const UseOfRails use(this, &lock);
    err = io_.stop(index);
  }
  if (closed_) return;
  const Clock::time_point now = this->now();
  Pair& pair = pairs_[index];
  pair.stopping = false;
  pair.stop_error = err;
  pair.stop_at = err == 0 ? Clock::time_point{} : now + kStopAgain;
  if (err == 0 || (pair.hopeless && PairIo::is_gone(err))) on_stopped(index, now);
  run(now);
}

// A QP that was never ready is in RESET: nothing has arrived over it, and it flushes nothing.
void Recovery::on_stopped(uint32_t index, Clock::time_point now) {
  if (io_.has_queue_pair(index) && io_.is_reset(index)) pairs_[index].flush_seen = true;
  pairs_[index].stop_error = 0;
  pairs_[index].stopped = true;
  pairs_[index].agreement.on_stopped(now);
}

bool Recovery::has_to_be_destroyed(const Pair& pair) {
  return pair.stop_error != 0 && !pair.stopping && pair.known != Known::kUsing;
}

// Without the mutex, since the watcher may wait for that with an event of this QP, for which
// ibv_destroy_qp waits. The data path, which is here, is the only other one that uses the QP. What
// has arrived and is still in the CQ may go with it: the sender then sends it again, or finds that
// it was acknowledged, which is an error.
void Recovery::destroy(uint32_t index, std::unique_lock<std::mutex>& lock) {
  Pair& pair = pairs_[index];
  const int refused = std::exchange(pair.stop_error, 0);
  const int err = destroy_queue_pair(index, lock);
  const std::string errors = "errno " + std::to_string(refused) + " and " + std::to_string(err);
  if (err != 0 && !PairIo::is_gone(err)) {
    return fail(Code::kSystem,
                "the QP of " + io_.path_text(index) +
                    " could be neither moved to ERROR nor destroyed (" + errors +
                    "), so that the pair cannot be recovered. Fix: look for errors of "
                    "that HCA in the kernel's log");
  }
  GDR_INFO(log::kNet,
           "%s is not used again: its QP could not be moved to ERROR, and was destroyed (%s)",
           io_.path_text(index).c_str(), errors.c_str());
  give_up(index);
  const Clock::time_point now = this->now();
  on_stopped(index, now);
  run(now);
}

// Without the mutex: see destroy(). Returns an errno value.
int Recovery::destroy_queue_pair(uint32_t index, std::unique_lock<std::mutex>& lock) {
  verbs::UniqueQp qp = io_.take_queue_pair(index);
  pairs_[index].destroying = true;
  int err = 0;
  {
    const UseOfRails use(this, &lock);
    err = PairIo::destroy(&qp);
  }
  pairs_[index].destroying = false;
  if (qp != nullptr) io_.put_back(index, std::move(qp));
  return err;
}

bool Recovery::has_queue_pair(uint32_t index) const {
  std::lock_guard lock(mutex_);
  return io_.has_queue_pair(index);
}

bool Recovery::is_active_usable() const {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const bool uses = pairs_[i].known == Known::kUsing && pairs_[i].agreement.usable();
    if (uses && !io_.stands_by(i)) return true;
  }
  return false;
}

// Whether the data path does not touch the QP of a pair that is withdrawn, nor begins to: it has
// finished with the pair; or it has not used it in this epoch and has an active pair, which it
// leaves only with the mutex, to take the news of that one's loss and of this one's.
bool Recovery::is_unused(uint32_t index) const {
  const Pair& pair = pairs_[index];
  if (!pair.stopped) return false;
  if (pair.known == Known::kFinished) return io_.end() == PairEnd::kSender || pair.counted;
  if (pair.known != Known::kUsing || !is_active_usable()) return false;
  if (io_.end() == PairEnd::kSender) return link_->is_idle();
  return pair.counted && arrivals_[index].count.load(std::memory_order_acquire) == 0;
}

// Whether a standby pair's QP can go: at once, or if_busy, when the data path has taken the news of
// the loss. Not one that its HCA may not answer for, as the caller would wait for that: one that is
// lost, unless an end has given it up, whose port is down, or that could not be stopped or
// destroyed before.
bool Recovery::may_give_way(uint32_t index, bool if_busy) const {
  const Pair& pair = pairs_[index];
  const bool there = io_.stands_by(index) && io_.has_queue_pair(index) && !pair.reviving;
  const bool answers = !pair.hopeless && pair.stop_error == 0 && !port_down_[io_.rail(index)];
  if (!there || !answers || !is_active_usable()) return false;
  const bool at_peer = pair.agreement.peer_cause().reason == wire::PairReason::kWithdrawn;
  if (pair.withdrawn || at_peer) return true;
  if (pair.agreement.lost() || pair.known != Known::kUsing) return false;
  const bool carried = io_.end() == PairEnd::kReceiver &&
                       arrivals_[index].count.load(std::memory_order_acquire) != 0;
  return if_busy ? !link_->is_idle() : link_->is_idle() && !carried;
}

Room Recovery::give_way(const HcaContext* hca, bool if_busy) {
  std::unique_lock lock(mutex_);
  if (closed_ || !recovers_ || link_ == nullptr || link_->failed()) return Room::kNone;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const bool there = hca == nullptr || io_.rails()[io_.rail(i)].device().hca.get() == hca;
    if (!there || !may_give_way(i, if_busy)) continue;
    withdraw(i, ENOMEM);
    run(now());
    if (is_stop_due(i, now())) {
      claim_stop(i);
      stop_claimed(i, lock);
    }
    if (closed_) return Room::kNone;
    if (!is_unused(i) && if_busy) return Room::kAwaited;
    if (!is_unused(i)) continue;
    give_up(i);  // before the mutex is given up: nothing may look at the QP then
    const int err = destroy_queue_pair(i, lock);
    if (closed_) return Room::kNone;
    if (err != 0) continue;
    give_back_rail(io_.rail(i), lock);
    return Room::kMade;
  }
  return Room::kNone;
}

// Without the mutex: these verbs wait for firmware. A CQ that the data path does not leave in time,
// or that its HCA fails to destroy, is not used any more, and is destroyed when the connection is
// closed.
void Recovery::give_back_rail(uint32_t rail, std::unique_lock<std::mutex>& lock) {
  if (is_rail_needed(rail)) return;
  const bool gives_queue = (kept_queues_ >> rail & 1) == 0;
  if (gives_queue) queues_.fetch_and(~(1u << rail), std::memory_order_seq_cst);
  bool destroyed = false;
  {
    const UseOfRails use(this, &lock);
    standby_registrations_->give_back(rail);
    io_.give_back_tables(rail);
    destroyed = gives_queue && are_queues_left() && io_.destroy_queue(rail) == 0;
  }
  if (destroyed) io_.forget_queue(rail);
}

// Whether a QP is on the rail, or the CQ has yet to show what has arrived. No CQ is destroyed that
// has a QP: the kernel refuses that (EBUSY), but libbnxt_re and libsiw have unmapped parts of the
// CQ by then.
bool Recovery::is_rail_needed(uint32_t rail) const {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    const bool has_qp = io_.has_queue_pair(i) || pair.destroying;
    const bool needs = has_qp || pair.awaits_empty != 0 || !io_.stands_by(i);
    if (io_.rail(i) == rail && needs) return true;
  }
  return false;
}

bool Recovery::keep_queue(uint32_t rail) {
  std::lock_guard lock(mutex_);
  kept_queues_ |= 1u << rail;
  return (queues_.load(std::memory_order_relaxed) >> rail & 1) != 0;
}

// Whether the data path has ended the use of CQs that it may have begun before.
bool Recovery::are_queues_left() const {
  const uint32_t use = uses_of_queues_.load(std::memory_order_seq_cst);
  const Clock::time_point until = Clock::now() + kUsePatience;
  while (use % 2 != 0 && uses_of_queues_.load(std::memory_order_acquire) == use) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kUsePause);
  }
  return true;
}

// Once the QP is in ERROR nothing arrives any more. The arrivals that were there are counted when
// the data path has come to a receive that was flushed, or to the last one that was posted, or has
// nothing outstanding at all: without a receive that is posted by NCCL, the sender had nothing to
// write to.
void Recovery::count_if_possible(uint32_t index, Clock::time_point now) {
  Pair& pair = pairs_[index];
  if (io_.end() == PairEnd::kSender || !pair.stopped || pair.counted) return;
  if (!pair.flush_seen && !link_->is_idle()) return;
  pair.counted = true;
  arrivals_[index].epoch.store(kCounted, std::memory_order_release);
  pair.agreement.on_counted(arrivals_[index].count.load(std::memory_order_acquire), now);
}

// The data path, which is here, is the only one that posts and counts receives in an epoch.
void Recovery::on_consumed(uint32_t index) {
  const Arrivals& arrivals = arrivals_[index];
  std::lock_guard lock(mutex_);
  const uint64_t arrived = arrivals.count.load(std::memory_order_relaxed);
  if (closed_ || arrived != arrivals.receives.load(std::memory_order_relaxed)) return;
  pairs_[index].flush_seen = true;
  run(now());
}

void Recovery::on_empty_queue(uint32_t rail, uint32_t awaited) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    const uint32_t since = pairs_[i].awaits_empty;
    if (io_.rail(i) == rail && since != 0 && since <= awaited) pairs_[i].flush_seen = true;
  }
  run(now());
}

// An HCA that is gone flushes no receives, so that an empty CQ has to show that all arrivals are
// counted. Only a poll that began after the pair was stopped shows that.
void Recovery::await_empty_queues() {
  uint32_t last = 0;
  for (Pair& pair : pairs_) {
    const bool counts = io_.end() == PairEnd::kReceiver && !pair.counted;
    const bool awaits = counts && pair.hopeless && pair.stopped;
    if (!awaits) {
      pair.awaits_empty = 0;
    } else if (pair.awaits_empty == 0) {
      pair.awaits_empty = ++awaits_;
    }
    last = std::max(last, pair.awaits_empty);
  }
  awaits_empty_.store(last, std::memory_order_release);
}

// The data path checks it, too, once it is called.
void Recovery::check_arrivals(uint32_t index) {
  const uint64_t acknowledged = arrivals_[index].count.load(std::memory_order_acquire);
  const bool over = pairs_[index].known == Known::kFinished;
  if (io_.end() == PairEnd::kReceiver || over) return;
  Status plausible = check_arrived({.acknowledged = acknowledged, .posted = kUnknown},
                                   pairs_[index].agreement.peer_arrived());
  if (!plausible) fail(plausible.error().code, plausible.error().text);
}

// The data path posts nothing more on the pair, whose QP is in ERROR. A QP without the completion
// of its marker is not used again: where its HCA is gone, or takes no work request in ERROR. Where
// the HCA refuses the marker, it is tried again at every step, the watcher's once a second at
// least: completions that the data path has yet to poll may occupy what it lacks. A pair that is
// drained needs none, such as one that was never connected, and the reviver may be using its QP.
void Recovery::post_marker(uint32_t index) {
  Pair& pair = pairs_[index];
  if (pair.marker_posted || pair.drained || pair.hopeless || io_.is_reset(index)) return;
  const uint64_t id = encode(WorkId{WorkKind::kProbe, index, pair.agreement.epoch(), kMarker});
  pair.marker_posted = io_.post_probe(index, id, 0) == 0;
}

// Whether the watcher does what the data path of a sender without outstanding requests would do:
// the receiver may need a pair, to flush what has arrived or to announce a receive, and NCCL does
// not call this end for that.
bool Recovery::acts_for_data_path() const {
  return io_.end() == PairEnd::kSender && link_->is_idle() && !link_->failed() && !is_any_usable();
}

// Nothing has to be taken over, and nothing but probes, statements and what was flushed is in the
// CQs, since no pair is usable. The data path takes the same news when it is called, as it does not
// know of them until then. A data path that is called has the time to take them itself.
void Recovery::act_for_data_path(Clock::time_point now, std::unique_lock<std::mutex>& lock) {
  for (uint32_t i = 0; i < pairs_.size(); ++i) {
    Pair& pair = pairs_[i];
    const bool uses = pair.known == Known::kUsing || pair.known == Known::kLost;
    if (!uses || pair.missed || !pair.agreement.recovered()) continue;
    if (now - *pair.lost_at < kTimeToTakeNews) continue;
    pair.missed = {PairNews::Kind::kAgreed, i, pair.agreement.epoch(),
                   pair.agreement.peer_arrived()};
    pair.agreement.on_taken_over(/*has_lost=*/false);
  }
  std::array<ibv_wc, 16> completions;  // the next tick takes what is left
  int count = 0;
  for (uint32_t rail = 0; rail < io_.rails().size(); ++rail) {
    if ((queues_.load(std::memory_order_relaxed) >> rail & 1) == 0) continue;
    const int room = static_cast<int>(completions.size()) - count;
    count += std::max(0, ibv_poll_cq(io_.rails()[rail].cq(), room, completions.data() + count));
  }
  lock.unlock();
  for (int i = 0; i < count; ++i) {
    const WorkId id = decode_work_id(completions[i].wr_id);
    const ibv_wc_status status = completions[i].status;
    if (status != IBV_WC_SUCCESS) {
      on_failed_work(id, status);
    } else if (id.kind == WorkKind::kProbe || id.kind == WorkKind::kStatement) {
      on_written(id);
    }
  }
  lock.lock();
  if (!closed_) run(now);
}

// A QP that returns must find nothing of its last epoch in the CQ. Not every driver removes that at
// the change to RESET (rxe and irdma do not, libmlx5, libmlx4 and libbnxt_re do): what is left
// would take the room of the next completions, and be looked up among the new work requests. Work
// requests complete in order, so that the send queue is empty when one has completed that was
// posted last, in ERROR, as ib_drain_qp() of Linux does it. Receives are counted instead: rxe does
// not see those that a process posts in ERROR.
bool Recovery::is_drained(uint32_t index) {
  Pair& pair = pairs_[index];
  if (pair.drained) return true;
  const Arrivals& arrivals = arrivals_[index];
  const bool counts = io_.end() == PairEnd::kReceiver;
  const uint64_t arrived = counts ? arrivals.count.load(std::memory_order_relaxed) : 0;
  const uint64_t receives = arrivals.receives.load(std::memory_order_relaxed);
  const bool ended = pair.marker_seen && arrived + pair.flushed >= receives;
  pair.drained = !pair.hopeless && (ended || io_.is_reset(index));
  return pair.drained;
}

}  // namespace gdr::transport

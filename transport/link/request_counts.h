// The requests of a connection, for those who ask whether it makes progress.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace gdr::transport {

// The data path counts, and any thread asks. Only one thread writes each counter, so that a plain
// increment is enough.
class RequestCounts {
 public:
  // ---- data path
  [[gnu::always_inline]] void count_posted() { add(posted_, 1); }
  // The request that was counted last could not be posted.
  void take_back_posted() { add(posted_, uint64_t(-1)); }
  // Of receives: once their arrivals are counted.
  [[gnu::always_inline]] void count_completed() { add(completed_, 1); }
  // Receiver: NCCL has asked for a receive, for which no pair is usable; or that is over.
  void set_awaits_pair(bool awaits) { awaits_pair_.store(awaits, std::memory_order_relaxed); }

  // ---- any thread
  // Whether all requests that were posted are complete. Everything that had completed them has then
  // been done, if the data path counts a request before it announces it.
  bool is_idle() const {
    const uint64_t completed = this->completed();
    return posted() == completed;
  }
  uint64_t posted() const { return posted_.load(std::memory_order_acquire); }
  // Flushes included.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool awaits_pair() const { return awaits_pair_.load(std::memory_order_relaxed); }

  // ---- watcher thread
  // Since when requests have been outstanding and none completed, as of the last note_progress();
  // nothing where none is outstanding.
  std::optional<std::chrono::steady_clock::time_point> stalled_since() const {
    return stalled_since_;
  }

 protected:
  // counts: otherwise nothing is outstanding any more.
  void note_progress(std::chrono::steady_clock::time_point now, bool counts) {
    const uint64_t completed = this->completed();
    if (posted() == completed || !counts) {
      stalled_since_.reset();
    } else if (completed != seen_completed_ || !stalled_since_) {
      stalled_since_ = now;
    }
    seen_completed_ = completed;
  }

 private:
  [[gnu::always_inline]] static void add(std::atomic<uint64_t>& counter, uint64_t difference) {
    counter.store(counter.load(std::memory_order_relaxed) + difference, std::memory_order_release);
  }

  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> completed_{0};
  std::atomic<bool> awaits_pair_{false};
  uint64_t seen_completed_ = 0;
  std::optional<std::chrono::steady_clock::time_point> stalled_since_;
};

}  // namespace gdr::transport

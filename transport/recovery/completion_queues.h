// Which completion queues a connection has, while standby rails give theirs back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace gdr::transport {

// By rail. A rail that stands by gives its queue back with its last queue pair (StandbyPairs).
//
// The data path takes no lock: who gives a queue back takes it out of the set first, and then waits
// for the end of the use that has begun before. Each of the two stores before it loads what the
// other one stores, in one order for all (seq_cst), so that one of them at least sees the other.
class CompletionQueues {
 public:
  // any_stands_by: whether a queue may be given back. Otherwise a use stores nothing.
  explicit CompletionQueues(bool any_stands_by) : uses_(any_stands_by ? 0 : 1) {}

  // The data path's use of completion queues, one at a time. While it lives, those of the rails
  // that it has exist; the others were given back, or are about to be.
  class Use {
   public:
    explicit Use(CompletionQueues& queues)
        : uses_(queues.uses_), before_(uses_.load(std::memory_order_relaxed)) {
      if (counts()) uses_.store(before_ + 1, std::memory_order_seq_cst);
      rails_ = queues.rails_.load(std::memory_order_seq_cst);
    }
    ~Use() {
      if (counts()) uses_.store(before_ + 2, std::memory_order_release);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    bool has(uint32_t rail) const { return (rails_ >> rail & 1) != 0; }

   private:
    bool counts() const { return before_ % 2 == 0; }

    std::atomic<uint32_t>& uses_;
    const uint32_t before_;
    uint32_t rails_;
  };

  // Whether the queue of a rail has to be found empty, which completes the count of what arrived
  // over QPs that flush nothing. Loaded before a poll, since only a poll that begins after the QP
  // was stopped shows that nothing more is to come: 0, or what Recovery::on_empty_queue() takes
  // where that poll returns nothing.
  uint32_t awaited_empty() const { return awaits_empty_.load(std::memory_order_acquire); }
  // 0: no pair does; else when the last one began to.
  void await_empty(uint32_t last) { awaits_empty_.store(last, std::memory_order_release); }

  bool has(uint32_t rail) const {
    return (rails_.load(std::memory_order_relaxed) >> rail & 1) != 0;
  }
  void remove(uint32_t rail) { rails_.fetch_and(~(1u << rail), std::memory_order_seq_cst); }
  // Whether the data path ends the use of queues that it may have begun before, in time: that takes
  // microseconds unless its thread does not run.
  bool are_left() const {
    constexpr std::chrono::milliseconds kLongestUse{20};
    constexpr std::chrono::microseconds kPause{50};
    using Clock = std::chrono::steady_clock;
    const uint32_t use = uses_.load(std::memory_order_seq_cst);
    const Clock::time_point until = Clock::now() + kLongestUse;
    while (use % 2 != 0 && uses_.load(std::memory_order_acquire) == use) {
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(kPause);
    }
    return true;
  }

 private:
  std::atomic<uint32_t> awaits_empty_{0};
  // Odd while there is a Use; for good, so that it stores nothing, where no rail stands by.
  std::atomic<uint32_t> uses_;
  std::atomic<uint32_t> rails_{~0u};  // bit per rail: the data path may use its queue
};

}  // namespace gdr::transport

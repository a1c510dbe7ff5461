// Decides when a polling loop gives up, at the cost of one increment for a poll without progress.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "tools/ranks/rank.h"

namespace gdr::tools {

class StallGuard {
 public:
  // yield_every is the number of polls without progress between two sched_yield(), a power of two;
  // it should be small where more ranks poll than there are cores.
  StallGuard(const Rank& rank, uint64_t yield_every)
      : rank_(rank), yield_mask_(yield_every - 1), patience_(rank.patience_seconds()) {}

  void progress() { polls_ = 0; }

  // Call this after a poll without progress. Returns false if there was no progress for the rank's
  // patience, or if the run has ended.
  bool keep_waiting() {
    if ((++polls_ & yield_mask_) != 0) [[likely]] {
      return true;
    }
    sched_yield();
    return (polls_ & kClockMask) != 0 || check();
  }

  // Returns a yield interval for local_ranks polling processes on this machine's cores.
  static uint64_t yield_interval(int local_ranks);

  static constexpr uint64_t kClockMask = (1u << 12) - 1;

 private:
  bool check();

  const Rank& rank_;
  uint64_t yield_mask_;
  double patience_;
  uint64_t polls_ = 0;
  Clock::time_point looked_at_{};
  double waited_ = 0;
};

// A rank that did not run for long finds in its queues what it waits for, or the other one, which
// did not run either, has to look into its own first. So the time between two looks at the clock
// counts for a tenth of the patience at most.
inline bool StallGuard::check() {
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> since = now - std::exchange(looked_at_, now);
  waited_ = polls_ == kClockMask + 1 ? 0 : waited_ + std::min(since.count(), patience_ / 10);
  return waited_ < patience_ && !rank_.abandoned();
}

inline uint64_t StallGuard::yield_interval(int local_ranks) {
  constexpr uint64_t kCrowded = 1u << 4;
  constexpr uint64_t kRoomy = 1u << 12;
  return static_cast<unsigned>(local_ranks) > std::thread::hardware_concurrency() ? kCrowded
                                                                                  : kRoomy;
}

}  // namespace gdr::tools

#include "tools/ranks/stall_guard.h"

#include <thread>

namespace gdr::tools {

bool StallGuard::check() {
  Clock::time_point now = Clock::now();
  if (polls_ == kClockMask + 1) waiting_since_ = now;
  std::chrono::duration<double> waited = now - waiting_since_;
  return waited.count() < patience_ && !rank_.abandoned();
}

uint64_t StallGuard::yield_interval(int local_ranks) {
  constexpr uint64_t kCrowded = 1u << 4;
  constexpr uint64_t kRoomy = 1u << 12;
  return static_cast<unsigned>(local_ranks) > std::thread::hardware_concurrency() ? kCrowded
                                                                                  : kRoomy;
}

}  // namespace gdr::tools

#pragma once

#include <cstdint>
#include <ctime>

namespace softhca {

inline uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

// Milliseconds, a few late, without a system call or a clock read.
inline uint64_t coarse_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
}

}  // namespace softhca

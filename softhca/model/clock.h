// The two clocks of the software HCA.
#pragma once

#include <cstdint>
#include <ctime>

namespace softhca {

// Returns CLOCK_MONOTONIC in nanoseconds. All deadlines are on this clock, which is the same in
// every process of the machine.
inline uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

// Returns milliseconds since boot, up to one scheduler tick late. It reads a value that the kernel
// keeps in the vDSO page, without a system call or a read of the time-stamp counter.
inline uint64_t coarse_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1000000;
}

}  // namespace softhca

// Memory that counts against the limit on locked memory: the pages of host memory that are
// registered, and the buffers of CQs and QPs (ib_umem_get() of Linux,
// drivers/infiniband/core/umem.c). The software HCA locks none of it, so that RLIMIT_MEMLOCK of the
// process does not limit it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace softhca {

class LockedMemory;

// Gives back what is counted.
struct Unlock {
  uint64_t bytes = 0;
  void operator()(LockedMemory* memory) const;
};
using MemoryLock = std::unique_ptr<LockedMemory, Unlock>;

class LockedMemory {
 public:
  // `limit` is "memlock_bytes" of the configuration.
  explicit LockedMemory(uint64_t limit) : limit_(limit) {}

  // Counts the pages that the range touches. Returns null beyond the limit.
  MemoryLock lock(uint64_t address, uint64_t bytes);

 private:
  friend struct Unlock;

  const uint64_t limit_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace softhca

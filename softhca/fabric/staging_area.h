// Chunks of shared memory through which data passes when the two ends cannot reach each other's
// memory: CUDA memory of different processes, or a host that forbids process_vm_writev.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "softhca/fabric/arena.h"

namespace softhca {

// One chunk is what one staged copy moves at a time.
constexpr uint64_t kChunkBytes = 512 << 10;

// The chunks of one process, in its arena.
class StagingArea {
 public:
  // `bytes` is rounded down to whole chunks; nothing is allocated before ensure().
  StagingArea(const Arena& arena, ArenaHeap& heap, uint64_t bytes)
      : arena_(arena), heap_(heap), bytes_(bytes / kChunkBytes * kChunkBytes) {}

  // Allocates all chunks at the first call and publishes them to the peers. Returns false when
  // /dev/shm is full, which is reported on stderr once.
  bool ensure();
  // Page-locks the chunks for CUDA, once. Control path, as ensure() is.
  void pin();

  // Returns the offset of a free chunk in the arena, or 0 while all are in use.
  uint64_t take();
  void give(uint64_t chunk);

 private:
  const Arena& arena_;
  ArenaHeap& heap_;
  const uint64_t bytes_;
  std::mutex mutex_;
  bool tried_ = false;
  bool pinned_ = false;
  std::vector<uint64_t> free_;
};

}  // namespace softhca

// Chunks of shared memory through which data passes when the two ends cannot reach each other's
// memory: CUDA memory of different processes, or hosts that forbid process_vm_writev.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "softhca/fabric/arena.h"

namespace softhca {

constexpr uint64_t kChunkBytes = 512 << 10;

class Staging {
 public:
  Staging(const Arena& arena, ArenaHeap& heap, uint64_t bytes)
      : arena_(arena), heap_(heap), bytes_(bytes / kChunkBytes * kChunkBytes) {}

  // Allocates all chunks, once. Peers find them from then on. False when /dev/shm is full.
  bool ensure();
  // Page-locks the chunks for CUDA, once. Control path, as ensure().
  void pin();

  // Offset of a free chunk in the arena, 0 when there is none now.
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

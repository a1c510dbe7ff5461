// Memory made ready for transfers, as drivers pin it: host memory, or CUDA memory.
#pragma once

#include <cstdint>
#include <memory>

#include "softhca/fabric/gpu_memory.h"
#include "softhca/gpu/window.h"
#include "softhca/verbs/locked_memory.h"

namespace softhca {

class Runtime;

// What a registration covers, as the application describes it.
struct Region {
  uint64_t address = 0;
  uint64_t length = 0;
  uint64_t iova = 0;
  unsigned access = 0;
  bool dmabuf = false;
};

// Gives back what is counted against the BAR1 limit.
struct Detach {
  uint64_t bytes = 0;
  void operator()(GpuMemory* memory) const { memory->detach(bytes); }
};

// Pinned until it is destroyed.
struct PinnedMemory {
  uint64_t address = 0;  // for copies by this process
  int32_t gpu = -1;      // CUDA device, or -1 for host memory
  MemoryLock lock;       // of host memory
  std::unique_ptr<GpuMemory, Detach> share;
  std::unique_ptr<GpuWindow> window;
};

// Both return 0 or an errno. EFAULT: the memory cannot be pinned, or is CUDA memory without a
// peermem module; ENOMEM: beyond the limit on locked memory, and what drivers give when BAR1 is
// full.
int pin(Runtime& runtime, const Region& region, PinnedMemory* pinned);
// For CUDA memory of the device `gpu`, whether or not there is a peermem module.
int pin_gpu(Runtime& runtime, int32_t gpu, const Region& region, PinnedMemory* pinned);

}  // namespace softhca

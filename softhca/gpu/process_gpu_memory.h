// CUDA memory of this process, as far as registration goes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softhca/gpu/window.h"

namespace softhca {

class Process;

class GpuMemory {
 public:
  explicit GpuMemory(Process& process) : process_(process) {}

  // -1 for host memory, and while CUDA is not loaded.
  int device_of(const void* address, size_t bytes);
  // Makes a device ready for copies and counts the bytes against the BAR1 limit. 0 or errno.
  int attach(int device, uint64_t bytes);
  // A mapping that copies by any GPU can use; null after an error that was told on stderr.
  std::unique_ptr<GpuWindow> open_window(int device, void* address, uint64_t bytes);
  // Page-locks all staging that copies may pass through. Once a device is ready; control path.
  void pin_staging();
  // A device that is ready, or -1.
  int ready_device() const { return ready_device_.load(); }
  void detach(uint64_t bytes) { registered_.fetch_sub(bytes); }

 private:
  Process& process_;
  std::atomic<uint64_t> registered_{0};
  std::atomic<int> ready_device_{-1};
};

}  // namespace softhca

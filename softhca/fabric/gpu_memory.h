// CUDA memory that this process has registered: the limit on it, and the page-locking of the
// staging areas through which it travels to other processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "softhca/fabric/process.h"
#include "softhca/gpu/window.h"

namespace softhca {

class GpuMemory {
 public:
  explicit GpuMemory(Process& process) : process_(process) {}

  // Returns the CUDA device that owns the range, or -1 for host memory and while no libcuda is
  // loaded in the process.
  int device_of(const void* address, size_t bytes) const;
  // Prepares a device for copies and counts `bytes` against "bar1_bytes" of the configuration.
  // Returns 0, ENOMEM beyond the limit, or EIO when the device cannot be used (the reason goes to
  // stderr). The copies need the engine, which the caller has to start.
  int attach(int device, uint64_t bytes);
  // Undoes attach()'s count.
  void detach(uint64_t bytes) { registered_.fetch_sub(bytes); }
  // Maps the range so that copies by any GPU can use it. Returns null after an error, whose reason
  // goes to stderr.
  std::unique_ptr<GpuWindow> open_window(int device, void* address, uint64_t bytes) const;

  // Page-locks this process's staging area and those of its peers, once a device is prepared: a
  // CUDA copy of pageable memory is not asynchronous. Control path; may wait for running kernels.
  void pin_staging();
  // Returns the device prepared last, or -1 while there is none.
  int ready_device() const { return ready_device_.load(); }

 private:
  Process& process_;
  std::atomic<uint64_t> registered_{0};
  std::atomic<int> ready_device_{-1};
};

}  // namespace softhca

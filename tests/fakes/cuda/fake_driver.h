// Loads the fake libcuda.so.1 into a test program, as the CUDA runtime would load the real one.
#pragma once

#include <cstddef>

#include "drivers/cuda/cuda_api.h"

namespace fake_cuda {

// What a test steers and sees, beyond the driver API.
struct Hooks {
  // While true, a kernel "spins" on both devices: calls that wait for kernels on a real GPU
  // (allocation, stream creation, page-locking, synchronisation) block until it is false again.
  void (*set_kernel_running)(bool running);
  // While true, the copies and fills of all streams wait.
  void (*set_copies_held)(bool held);
  // While true, another thread "captures a graph in global mode": calls that fail on a real driver
  // then, made by a thread whose capture mode is not relaxed, abort the process.
  void (*set_capturing)(bool capturing);
  // How long every copy waits before it starts, in microseconds.
  void (*set_copy_delay_us)(unsigned microseconds);
  // From now on every call in the device's context returns `error`, and its streams drop their
  // work.
  void (*fail_context)(int device, int error);
  // While true, every call returns CUDA_ERROR_DEINITIALIZED, as in a driver during process exit.
  void (*set_shut_down)(bool shut_down);
  // While true, allocations behave like those of the virtual-memory API: only the device that is
  // current at the allocation can access them, and copies by another fail.
  void (*set_virtual_memory)(bool is_virtual);
  // How many handles of virtual memory were retained and not released.
  unsigned long (*live_handles)();
  // The address at which the CPU can read and write the device memory, whose own addresses fault;
  // null if the address is not device memory.
  void* (*view)(gdr::cuda::DevicePtr address);
};

struct Driver {
  gdr::cuda::Api api;
  Hooks hooks;

  // Loads it, once; aborts if it cannot. Does not call cuInit.
  static const Driver& load();
};

// Owns an allocation of device memory.
class DeviceBuffer {
 public:
  DeviceBuffer(const Driver& driver, int device, size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // Returns the device's address, at which a CPU access faults.
  char* get() const { return reinterpret_cast<char*>(address_); }
  gdr::cuda::DevicePtr address() const { return address_; }
  // Returns an address of the same bytes for the CPU.
  char* view() const { return view_; }

 private:
  const Driver& driver_;
  const int device_;
  gdr::cuda::Context context_ = nullptr;
  gdr::cuda::DevicePtr address_ = 0;
  char* view_ = nullptr;
};

}  // namespace fake_cuda

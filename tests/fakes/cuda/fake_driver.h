// Loads the fake libcuda.so.1 into a test program, as the CUDA runtime would load the real one.
#pragma once

#include <cstddef>

#include "drivers/cuda/cuda_api.h"

namespace fake_cuda {

// The functions of fake_cuda.h.
struct Hooks {
  void (*set_kernel_running)(int);
  void (*set_copies_held)(int);
  void (*set_capturing)(int);
  void (*set_copy_delay_us)(unsigned);
  void (*fail_context)(int, int);
  void (*set_shut_down)(int);
  void (*set_virtual_memory)(int);
  void (*set_pcie_mapping)(int);
  unsigned long (*pcie_mappings)();
  unsigned long (*live_handles)();
  void* (*view)(unsigned long long);
  int (*peer_enabled)(int, int);
  unsigned long (*stream_operations)();
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

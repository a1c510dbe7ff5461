// GPU memory for the tools and the tests: allocated, filled and copied synchronously. The plugin
// does not link this (CMake target gdr_gpu_workspace); its own copies are in transport/memory.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::cuda {

// One GPU and a stream on it. Movable; used by one thread at a time. It must outlive the memory
// that it allocated.
class GpuWorkspace {
 public:
  class Memory;

  // `device` is a CUDA ordinal.
  static Result<GpuWorkspace> open(const CudaDriver& driver, int device);

  int device() const { return state_->context.device(); }

  // Makes the device's primary context current in this thread from now on, as cudaSetDevice does.
  Status set_current() const;
  // Allocates device memory, as cudaMalloc does.
  Result<Memory> allocate(size_t bytes) const;
  // Copies between any two addresses of this process, host or device, and returns when the copy is
  // complete.
  Status copy(void* destination, const void* source, size_t bytes) const;
  // Sets device memory to `value`, and returns when that is complete.
  Status fill(void* address, unsigned char value, size_t bytes) const;

 private:
  struct State {
    explicit State(PrimaryContext held) : context(std::move(held)) {}
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    PrimaryContext context;
    cuda::Stream stream = nullptr;
  };
  explicit GpuWorkspace(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Status finish(const char* call, cuda::Rc rc) const;

  std::unique_ptr<State> state_;
};

// An allocation, freed with this object.
class GpuWorkspace::Memory {
 public:
  void* get() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  friend class GpuWorkspace;
  struct Free {
    const State* state = nullptr;
    void operator()(void* address) const;
  };
  Memory(void* address, size_t bytes, Free free) : memory_(address, free), bytes_(bytes) {}

  std::unique_ptr<void, Free> memory_;
  size_t bytes_;
};

}  // namespace gdr::cuda

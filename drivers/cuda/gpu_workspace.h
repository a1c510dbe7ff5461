// GPU memory for the tools and tests: plain, synchronous, and not for a data path.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::cuda {

// One device with a stream of its own. Movable; used by one thread at a time. Keep it for longer
// than what it allocated.
class GpuWorkspace {
 public:
  class Memory;

  static Result<GpuWorkspace> open(const CudaDriver& driver, int device);

  int device() const { return state_->context.device(); }

  // Makes the device's primary context current in this thread for good, as cudaSetDevice does.
  Status set_current() const;
  Result<Memory> allocate(size_t bytes) const;
  // Either side may be host or device memory of this process. Returns when the bytes are there.
  Status copy(void* destination, const void* source, size_t bytes) const;
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

// Freed with the object.
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

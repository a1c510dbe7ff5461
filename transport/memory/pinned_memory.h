// Page-locked host memory: a GPU copies from and to it asynchronously. Copies of pageable memory
// make the launching thread wait instead.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::transport {

// An allocation of host memory, page-locked for all GPUs of the process and freed with this object.
class PinnedMemory {
 public:
  // Allocates at least `bytes`. Page-locking (cuMemHostRegister), and unlocking in the destructor,
  // may wait for running kernels.
  static Result<std::unique_ptr<PinnedMemory>> create(const cuda::CudaDriver& driver, int device,
                                                      size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* get() const { return static_cast<std::byte*>(address_); }
  size_t bytes() const { return bytes_; }  // rounded up to whole pages

 private:
  PinnedMemory(cuda::PrimaryContext context, void* address, size_t bytes)
      : context_(std::move(context)), address_(address), bytes_(bytes) {}

  cuda::PrimaryContext context_;
  void* address_;
  size_t bytes_;
  bool pinned_ = false;
};

}  // namespace gdr::transport

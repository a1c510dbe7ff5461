// Page-locked host memory, which a GPU copies from and to without waiting.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::transport {

class PinnedMemory {
 public:
  // Registration time: may wait for running kernels.
  static Result<std::unique_ptr<PinnedMemory>> create(const cuda::CudaDriver& driver, int device,
                                                      size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* get() const { return static_cast<std::byte*>(address_); }
  size_t bytes() const { return bytes_; }  // whole pages

 private:
  PinnedMemory(cuda::PrimaryContext context, void* address, size_t bytes)
      : context_(std::move(context)), address_(address), bytes_(bytes) {}

  cuda::PrimaryContext context_;
  void* address_;
  size_t bytes_;
  bool pinned_ = false;
};

}  // namespace gdr::transport

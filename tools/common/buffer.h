// Memory for messages: of the host or of a CUDA device.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/result.h"
#include "drivers/cuda/gpu_workspace.h"

namespace gdr::tools {

class Buffer {
 public:
  // Allocates page-aligned host memory and touches it, so that no page fault occurs in a
  // measurement.
  static Result<Buffer> host(size_t bytes);
  // Allocates zeroed memory of the GPU, which must outlive the buffer. It consists of whole 64 KiB
  // pages, so that it can be exported as a dma-buf.
  static Result<Buffer> cuda(const cuda::GpuWorkspace& gpu, size_t bytes);

  char* data() const { return data_; }  // a device address for GPU memory
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Buffer() = default;
  std::unique_ptr<char, Free> host_;
  std::optional<cuda::GpuWorkspace::Memory> device_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace gdr::tools

// Memory that messages are sent from and received into.
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
  // Page-aligned host memory, touched, so that no page fault falls into a measurement.
  static Result<Buffer> host(size_t bytes);
  // Zeroed memory of the GPU, which must outlive it. Its pages are whole: they can be exported.
  static Result<Buffer> cuda(const cuda::GpuWorkspace& gpu, size_t bytes);

  char* data() const { return data_; }  // of a GPU: not for the CPU
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

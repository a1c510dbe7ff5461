// The memory of a rank's messages: of the host, or of one CUDA device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "drivers/cuda/gpu_workspace.h"
#include "tools/common/buffer.h"
#include "tools/perf/memory_place.h"

namespace gdr::tools {

class RankMemory {
 public:
  // For CUDA: loads the driver, and makes the device's primary context current in this thread for
  // good, as it is in NCCL's proxy threads. Call it before the plugin's init, as CUDA comes first
  // under NCCL.
  static Result<RankMemory> open(const MemoryPlace& place, int rank);

  const cuda::GpuWorkspace* gpu() const { return gpu_ ? &*gpu_ : nullptr; }  // null: host memory
  bool exports_dmabuf() const { return exports_dmabuf_; }
  // "host", "cuda:0 (0000:1a:00.0)".
  const std::string& text() const { return text_; }

  // Must not outlive this.
  Result<Buffer> allocate(size_t bytes) const;

 private:
  RankMemory() = default;
  std::optional<cuda::GpuWorkspace> gpu_;
  bool exports_dmabuf_ = false;
  std::string text_ = "host";
};

}  // namespace gdr::tools

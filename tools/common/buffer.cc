#include "tools/common/buffer.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

namespace gdr::tools {
namespace {
constexpr size_t kPageBytes = 4096;
// The page size of GPUDirect RDMA, and the largest page size of hosts with GPUs.
constexpr size_t kGpuPage = size_t{64} << 10;
}  // namespace

Result<Buffer> Buffer::host(size_t bytes) {
  Buffer buffer;
  size_t rounded = (bytes + kPageBytes) / kPageBytes * kPageBytes;
  buffer.host_.reset(static_cast<char*>(std::aligned_alloc(kPageBytes, rounded)));
  if (!buffer.host_) return fail(Code::kSystem, fmt::format("no memory for {} bytes", bytes));
  std::memset(buffer.host_.get(), 0, rounded);
  buffer.data_ = buffer.host_.get();
  buffer.bytes_ = bytes;
  return buffer;
}

Result<Buffer> Buffer::cuda(const cuda::GpuWorkspace& gpu, size_t bytes) {
  Buffer buffer;
  size_t rounded = (bytes + kGpuPage) / kGpuPage * kGpuPage;
  // Small allocations may begin anywhere within a page.
  auto memory = gpu.allocate(rounded + kGpuPage);
  if (!memory) {
    memory.error().text += fmt::format(", asked for {} bytes", bytes);
    return forward_error(memory);
  }
  auto begin = reinterpret_cast<uintptr_t>(memory->get());
  buffer.data_ = static_cast<char*>(memory->get()) + (kGpuPage - begin % kGpuPage) % kGpuPage;
  buffer.device_.emplace(std::move(*memory));
  buffer.bytes_ = bytes;
  if (Status zeroed = gpu.fill(buffer.data_, 0, rounded); !zeroed) return forward_error(zeroed);
  return buffer;
}

}  // namespace gdr::tools

#include "tools/perf/rank_memory.h"

#include <fmt/format.h>

#include "drivers/cuda/cuda_driver.h"

namespace gdr::tools {
namespace {
// The place's device, as a number that the driver knows.
Result<int> device_of(const MemoryPlace& place, int rank, const cuda::CudaDriver& driver) {
  auto count = driver.device_count();
  if (!count) return forward_error(count);
  if (*count == 0) return fail(Code::kUnsupported, "there is no CUDA device");
  if (place.device < 0) return rank % *count;
  if (place.device < *count) return place.device;
  return fail(Code::kInvalidUsage, fmt::format("there are CUDA devices 0..{}", *count - 1));
}
}  // namespace

Result<RankMemory> RankMemory::open(const MemoryPlace& place, int rank) {
  RankMemory memory;
  if (!place.cuda) return memory;
  auto because = [&](const Error& error) {
    std::string asked = place.device < 0 ? "cuda" : fmt::format("cuda:{}", place.device);
    return fail(error.code, fmt::format("--memory {}: {}", asked, error.text));
  };
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver) return because(driver.error());
  auto device = device_of(place, rank, *driver);
  if (!device) return because(device.error());
  auto gpu = cuda::GpuWorkspace::open(*driver, *device);
  if (!gpu) return because(gpu.error());
  if (Status current = gpu->set_current(); !current) return because(current.error());
  auto exports = driver->dmabuf_supported(*device);
  if (!exports) return because(exports.error());
  auto pci = driver->pci_bus_id(*device);
  if (!pci) return because(pci.error());
  memory.gpu_.emplace(std::move(*gpu));
  memory.exports_dmabuf_ = *exports;
  memory.text_ = fmt::format("cuda:{} ({})", *device, *pci);
  return memory;
}

Result<Buffer> RankMemory::allocate(size_t bytes) const {
  return gpu_ ? Buffer::cuda(*gpu_, bytes) : Buffer::host(bytes);
}

}  // namespace gdr::tools

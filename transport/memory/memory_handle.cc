#include "transport/memory/memory_handle.h"

#include "drivers/cuda/cuda_driver.h"
#include "drivers/cuda/primary_context.h"

namespace gdr::transport {

GpuAllocation GpuAllocation::containing(const GpuAllocation& region, int device) {
  const Result<cuda::CudaDriver>& driver = cuda::CudaDriver::shared();
  if (!driver || device < 0) return region;
  Result<cuda::PrimaryContext> context = cuda::PrimaryContext::retain(driver->api(), device);
  if (!context) return region;
  cuda::CurrentContext current(*context);
  cuda::DevicePtr base = 0;
  size_t bytes = 0;
  const bool known = current.status() && driver->api().mem_get_address_range(
                                             &base, &bytes, region.address) == cuda::kSuccess;
  return known ? GpuAllocation{static_cast<uintptr_t>(base), bytes} : region;
}

OwnAllocations::Own OwnAllocations::claim(const GpuAllocation& allocation, bool relayed) {
  std::lock_guard lock(mutex_);
  std::erase_if(own_, [](const auto& known) { return known.expired(); });
  bool same_size = false;
  for (const auto& known : own_) {
    Own own = known.lock();
    if (own == nullptr) continue;
    if (own->address == allocation.address) return own;
    same_size = same_size || own->bytes == allocation.bytes;
  }
  if (!own_.empty() && !(relayed && same_size)) return nullptr;
  Own own = std::make_shared<const GpuAllocation>(allocation);
  own_.push_back(own);
  return own;
}

}  // namespace gdr::transport

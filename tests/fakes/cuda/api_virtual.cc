// The driver API of the fake: virtual memory.
#include "drivers/cuda/cuda_api.h"
#include "tests/fakes/cuda/driver.h"
#include "tests/fakes/cuda/memory.h"
#include "tests/fakes/cuda/rules.h"

namespace cuda = gdr::cuda;
using fake_cuda::device_memory;
using fake_cuda::enter;
using fake_cuda::Kind;

namespace {

cuda::Rc valid_if(bool valid) { return valid ? cuda::kSuccess : cuda::kErrorInvalidValue; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cuda::Rc cuMemGetAddressRange_v2(cuda::DevicePtr* base, size_t* bytes, cuda::DevicePtr address) {
  cuda::Rc rc = enter("cuMemGetAddressRange", Kind::kContext);
  if (rc != cuda::kSuccess) return rc;
  auto extent = device_memory().extent(address);
  if (!extent) return cuda::kErrorInvalidValue;
  *base = extent->first;
  *bytes = extent->second;
  return cuda::kSuccess;
}

cuda::Rc cuMemRetainAllocationHandle(cuda::AllocationHandle* handle, void* address) {
  cuda::Rc rc = enter("cuMemRetainAllocationHandle", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  *handle = device_memory().retain(reinterpret_cast<cuda::DevicePtr>(address));
  return valid_if(*handle != 0);
}

cuda::Rc cuMemRelease(cuda::AllocationHandle handle) {
  cuda::Rc rc = enter("cuMemRelease", Kind::kQuery);
  return rc != cuda::kSuccess ? rc : valid_if(device_memory().release(handle));
}

cuda::Rc cuMemAddressReserve(cuda::DevicePtr* address, size_t bytes, size_t, cuda::DevicePtr,
                             unsigned long long flags) {
  cuda::Rc rc = enter("cuMemAddressReserve", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  *address = device_memory().reserve(bytes);
  return valid_if(*address != 0 && flags == 0);
}

// Frees nothing, since addresses are never used twice.
cuda::Rc cuMemAddressFree(cuda::DevicePtr, size_t) {
  return enter("cuMemAddressFree", Kind::kQuery);
}

cuda::Rc cuMemMap(cuda::DevicePtr address, size_t bytes, size_t offset,
                  cuda::AllocationHandle handle, unsigned long long flags) {
  cuda::Rc rc = enter("cuMemMap", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  return valid_if(offset == 0 && flags == 0 && device_memory().map(address, bytes, handle));
}

cuda::Rc cuMemUnmap(cuda::DevicePtr address, size_t) {
  cuda::Rc rc = enter("cuMemUnmap", Kind::kQuery);
  return rc != cuda::kSuccess ? rc : valid_if(device_memory().free(address));
}

cuda::Rc cuMemSetAccess(cuda::DevicePtr address, size_t bytes, const cuda::MemoryAccess* access,
                        size_t count) {
  cuda::Rc rc = enter("cuMemSetAccess", Kind::kQuery);
  for (size_t i = 0; i < count && rc == cuda::kSuccess; ++i) {
    bool granted = access[i].location.type == cuda::kLocationDevice &&
                   access[i].flags == cuda::kAccessReadWrite &&
                   device_memory().set_access(address, bytes, access[i].location.id);
    rc = valid_if(granted);
  }
  return rc;
}
}
#pragma GCC visibility pop

// The CUDA driver as the plugin and the tools need it: whose memory an address is, and GPUDirect.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "drivers/cuda/cuda_api.h"

namespace gdr::cuda {

// A loaded and initialised libcuda.so.1. Copies share it; it is never unloaded. Thread-safe.
class CudaDriver {
 public:
  // Unsupported where there is no libcuda.so.1 or no GPU.
  static Result<CudaDriver> load();
  // The process's one driver, loaded at the first call; a failure is kept, too.
  static const Result<CudaDriver>& shared();

  const cuda::Api& api() const { return api_; }

  // As CUDA counts and numbers devices: CUDA_VISIBLE_DEVICES applies.
  Result<int> device_count() const;
  // "0000:1a:00.0", in lower case as sysfs writes it.
  Result<std::string> pci_bus_id(int device) const;
  // The device whose memory `address` is; InvalidArgument where it is host memory.
  Result<int> device_of_pointer(const void* address) const;

  // The device whose context is current in this thread; InvalidArgument where there is none.
  Result<int> current_device() const;

  // 80 for compute capability 8.0.
  Result<int> compute_capability(int device) const;
  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: the driver can export GPU memory. The kernel and the HCA
  // must support it, too.
  Result<bool> dmabuf_supported(int device) const;
  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: what nvidia-peermem needs of the device.
  Result<bool> gpudirect_rdma_supported(int device) const;

  // A dma-buf of device memory. `address` and `bytes` must be multiples of the host's page size:
  // round an unaligned range outwards and pass the distance as the offset at registration.
  // Unsupported where this GPU, driver or kind of memory has none.
  Result<UniqueFd> export_dmabuf(const void* address, size_t bytes) const;

  // An Error that names the call and CUDA's own name of what it returned.
  tl::unexpected<Error> failed(const std::string& call, cuda::Rc rc) const;

 private:
  explicit CudaDriver(const cuda::Api& api) : api_(api) {}
  Result<int> attribute(int which, const char* name, int device) const;
  Result<bool> flag(int which, const char* name, int device) const;

  cuda::Api api_;
};

// export_dmabuf() of the shared driver.
Result<UniqueFd> export_dmabuf(const void* address, size_t bytes);

}  // namespace gdr::cuda

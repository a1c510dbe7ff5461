// The questions that the plugin and the tools ask the CUDA driver: which GPU owns an address, where
// that GPU is, and whether its memory can be exported for GPUDirect RDMA.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "drivers/cuda/cuda_api.h"

namespace gdr::cuda {

// A loaded and initialised libcuda.so.1. Copies share the library, which is never unloaded.
// Thread-safe. A `device` is a CUDA ordinal: CUDA_VISIBLE_DEVICES selects and orders them.
class CudaDriver {
 public:
  // Loads and initialises the driver. Returns kUnsupported without libcuda.so.1 or without a GPU,
  // kSystem if cuInit fails otherwise.
  static Result<CudaDriver> load();
  // Returns the driver of this process, loaded at the first call. A failure is final, too.
  static const Result<CudaDriver>& shared();

  const cuda::Api& api() const { return api_; }

  // The number of visible devices.
  Result<int> device_count() const;
  // The device's PCI address, in lower case as sysfs writes it, such as "0000:1a:00.0".
  Result<std::string> pci_bus_id(int device) const;
  // The device that owns the memory at `address`; kInvalidArgument if that is host memory.
  Result<int> device_of_pointer(const void* address) const;

  // The device whose context is current in this thread; kInvalidArgument if none is.
  Result<int> current_device() const;

  // Ten times the major plus the minor number: 80 for compute capability 8.0.
  Result<int> compute_capability(int device) const;
  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: the driver can export this GPU's memory as a dma-buf. To
  // register one, the kernel and the HCA's driver must support it, too.
  Result<bool> dmabuf_supported(int device) const;
  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: nvidia-peermem works with this GPU.
  Result<bool> gpudirect_rdma_supported(int device) const;

  // Exports device memory as a dma-buf. `address` and `bytes` must be multiples of the host's page
  // size: round an unaligned range outwards, and pass what that added in front as the offset when
  // registering. Returns
  // kUnsupported if this GPU, driver or kind of allocation has no dma-buf.
  Result<UniqueFd> export_dmabuf(const void* address, size_t bytes) const;

  // See call_failed() in cuda_api.h.
  tl::unexpected<Error> failed(const std::string& call, cuda::Rc rc) const;

 private:
  explicit CudaDriver(const cuda::Api& api) : api_(api) {}
  Result<int> attribute(int which, const char* name, int device) const;
  Result<bool> flag(int which, const char* name, int device) const;

  cuda::Api api_;
};

// Exports as CudaDriver::export_dmabuf() does, by the driver of this process.
Result<UniqueFd> export_dmabuf(const void* address, size_t bytes);

}  // namespace gdr::cuda

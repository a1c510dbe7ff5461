#include "drivers/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "drivers/cuda/primary_context.h"

namespace gdr::cuda {

Result<CudaDriver> CudaDriver::load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(Code::kUnsupported, std::string("no CUDA driver: ") +
                                        (why == nullptr ? "libcuda.so.1 not found" : why));
  }
  Result<cuda::Api> api = cuda::bind(library);
  if (!api) return forward_error(api);
  CudaDriver driver(*api);
  cuda::Rc rc = driver.api_.init(0);
  if (rc != cuda::kSuccess) {
    tl::unexpected<Error> error = driver.failed("cuInit", rc);
    if (rc == cuda::kErrorNoDevice) error.value().code = Code::kUnsupported;
    return error;
  }
  return driver;
}

const Result<CudaDriver>& CudaDriver::shared() {
  static const Result<CudaDriver> driver = load();
  return driver;
}

Result<int> CudaDriver::device_count() const {
  int count = 0;
  cuda::Rc rc = api_.device_get_count(&count);
  if (rc != cuda::kSuccess) return failed("cuDeviceGetCount", rc);
  return count;
}

Result<std::string> CudaDriver::pci_bus_id(int device) const {
  char text[32] = {};
  cuda::Rc rc = api_.device_get_pci_bus_id(text, sizeof(text), device);
  if (rc != cuda::kSuccess) {
    return failed("cuDeviceGetPCIBusId of device " + std::to_string(device), rc);
  }
  std::string id = text;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return id;
}

Result<int> CudaDriver::device_of_pointer(const void* address) const {
  int device = -1;
  cuda::Rc rc = cuda::device_of(api_, reinterpret_cast<cuda::DevicePtr>(address), &device);
  if (rc != cuda::kSuccess) return failed("cuPointerGetAttributes", rc);
  if (device < 0) return fail(Code::kInvalidArgument, "the address is not GPU memory");
  return device;
}

Result<int> CudaDriver::current_device() const {
  cuda::Device device = 0;
  cuda::Rc rc = api_.ctx_get_device(&device);
  if (rc == cuda::kErrorInvalidContext) {
    return fail(Code::kInvalidArgument, "no CUDA context is current in this thread");
  }
  if (rc != cuda::kSuccess) return failed("cuCtxGetDevice", rc);
  return device;
}

Result<int> CudaDriver::attribute(int which, const char* name, int device) const {
  int value = 0;
  cuda::Rc rc = api_.device_get_attribute(&value, which, device);
  if (rc != cuda::kSuccess) {
    return failed(std::string(name) + " of device " + std::to_string(device), rc);
  }
  return value;
}

Result<bool> CudaDriver::flag(int which, const char* name, int device) const {
  return attribute(which, name, device).map([](int value) { return value != 0; });
}

Result<int> CudaDriver::compute_capability(int device) const {
  Result<int> major = attribute(cuda::kDeviceCapabilityMajor, "COMPUTE_CAPABILITY_MAJOR", device);
  if (!major) return major;
  return attribute(cuda::kDeviceCapabilityMinor, "COMPUTE_CAPABILITY_MINOR", device)
      .map([&](int minor) { return *major * 10 + minor; });
}

Result<bool> CudaDriver::dmabuf_supported(int device) const {
  return flag(cuda::kDeviceDmaBufSupported, "DMA_BUF_SUPPORTED", device);
}

Result<bool> CudaDriver::gpudirect_rdma_supported(int device) const {
  return flag(cuda::kDeviceGpuDirectRdmaSupported, "GPU_DIRECT_RDMA_SUPPORTED", device);
}

Result<UniqueFd> CudaDriver::export_dmabuf(const void* address, size_t bytes) const {
  Result<int> device = device_of_pointer(address);
  if (!device) return forward_error(device);
  Result<PrimaryContext> context = PrimaryContext::retain(api_, *device);
  if (!context) return forward_error(context);
  CurrentContext current(*context);
  if (!current.status()) return tl::unexpected(current.status().error());
  int fd = -1;
  const cuda::Rc rc = api_.mem_get_handle_for_address_range(
      &fd, reinterpret_cast<cuda::DevicePtr>(address), bytes, cuda::kRangeHandleDmaBufFd, 0);
  if (rc == cuda::kSuccess) return UniqueFd(fd);
  tl::unexpected<Error> error = failed("dma-buf export of " + std::to_string(bytes) +
                                           " bytes of CUDA device " + std::to_string(*device),
                                       rc);
  if (rc == cuda::kErrorNotSupported) {
    error.value().code = Code::kUnsupported;
    error.value().text += ": NVIDIA's open kernel modules and Linux 5.12 or newer are needed";
  }
  return error;
}

tl::unexpected<Error> CudaDriver::failed(const std::string& call, cuda::Rc rc) const {
  return call_failed(api_, call, rc);
}

Result<UniqueFd> export_dmabuf(const void* address, size_t bytes) {
  const Result<CudaDriver>& driver = CudaDriver::shared();
  if (!driver) return tl::unexpected(driver.error());
  return driver->export_dmabuf(address, bytes);
}

}  // namespace gdr::cuda

// The driver API of the fake: devices, contexts, errors and the test's switches.
#include <cstdio>

#include "drivers/cuda/cuda_api.h"
#include "tests/fakes/cuda/driver.h"
#include "tests/fakes/cuda/fake_driver.h"
#include "tests/fakes/cuda/memory.h"
#include "tests/fakes/cuda/rules.h"

namespace cuda = gdr::cuda;
using fake_cuda::enter;
using fake_cuda::Kind;
using fake_cuda::primary;
using fake_cuda::switches;

namespace {

bool is_device(int device) { return device >= 0 && device < fake_cuda::kDevices; }

struct ErrorName {
  cuda::Rc rc;
  const char* name;
};
constexpr ErrorName kErrorNames[] = {
    {cuda::kSuccess, "CUDA_SUCCESS"},
    {cuda::kErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
    {cuda::kErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
    {cuda::kErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
    {cuda::kErrorDeinitialized, "CUDA_ERROR_DEINITIALIZED"},
    {cuda::kErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
    {cuda::kErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
    {cuda::kErrorNotReady, "CUDA_ERROR_NOT_READY"},
    {cuda::kErrorIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {cuda::kErrorHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {cuda::kErrorHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {cuda::kErrorNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
};

constexpr fake_cuda::Hooks kHooks{
    .set_kernel_running = [](bool running) { switches().kernels.set_closed(running); },
    .set_copies_held = [](bool held) { switches().copies.set_closed(held); },
    .set_capturing = [](bool capturing) { switches().capturing = capturing; },
    .set_copy_delay_us = [](unsigned microseconds) { switches().copy_delay_us = microseconds; },
    .fail_context = [](int device, int error) { primary(device)->error = error; },
    .set_shut_down = [](bool shut_down) { switches().shut_down = shut_down; },
    .set_virtual_memory = [](bool is_virtual) { switches().virtual_memory = is_virtual; },
    .live_handles = []() -> unsigned long { return fake_cuda::device_memory().live_handles(); },
    .view =
        [](cuda::DevicePtr address) { return fake_cuda::device_memory().view("view", address, 1); },
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cuda::Rc cuInit(unsigned flags) {
  if (flags != 0) return cuda::kErrorInvalidValue;
  if (switches().shut_down) return cuda::kErrorDeinitialized;
  switches().initialized = true;
  return cuda::kSuccess;
}

cuda::Rc cuDriverGetVersion(int* version) {
  *version = 13000;
  return cuda::kSuccess;
}

cuda::Rc cuGetErrorName(cuda::Rc error, const char** name) {
  for (const ErrorName& known : kErrorNames) {
    if (known.rc != error) continue;
    *name = known.name;
    return cuda::kSuccess;
  }
  *name = nullptr;
  return cuda::kErrorInvalidValue;
}

cuda::Rc cuDeviceGet(cuda::Device* device, int ordinal) {
  cuda::Rc rc = enter("cuDeviceGet", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(ordinal)) return cuda::kErrorInvalidDevice;
  *device = ordinal;
  return cuda::kSuccess;
}

cuda::Rc cuDeviceGetCount(int* count) {
  *count = fake_cuda::kDevices;
  return enter("cuDeviceGetCount", Kind::kQuery);
}

cuda::Rc cuDeviceGetAttribute(int* value, int attribute, cuda::Device device) {
  cuda::Rc rc = enter("cuDeviceGetAttribute", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(device)) return cuda::kErrorInvalidDevice;
  switch (attribute) {
    case cuda::kDeviceDmaBufSupported:
      *value = switches().dmabuf ? 1 : 0;
      return cuda::kSuccess;
    case cuda::kDeviceGpuDirectRdmaSupported:
      *value = 1;
      return cuda::kSuccess;
    case cuda::kDeviceCapabilityMajor:
      *value = 9;
      return cuda::kSuccess;
    case cuda::kDeviceCapabilityMinor:
      *value = 0;
      return cuda::kSuccess;
    case cuda::kDeviceCanUse64BitStreamMemOps:
      *value = switches().stream_memops ? 1 : 0;
      return cuda::kSuccess;
    default:
      return cuda::kErrorInvalidValue;
  }
}

cuda::Rc cuDeviceGetPCIBusId(char* text, int size, cuda::Device device) {
  cuda::Rc rc = enter("cuDeviceGetPCIBusId", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(device)) return cuda::kErrorInvalidDevice;
  int length = std::snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", 0x1a + device);
  return length < size ? cuda::kSuccess : cuda::kErrorInvalidValue;
}

cuda::Rc cuDeviceCanAccessPeer(int* can, cuda::Device device, cuda::Device peer) {
  *can = is_device(device) && is_device(peer) && device != peer ? 1 : 0;
  return enter("cuDeviceCanAccessPeer", Kind::kQuery);
}

cuda::Rc cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device) {
  cuda::Rc rc = enter("cuDevicePrimaryCtxRetain", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(device)) return cuda::kErrorInvalidDevice;
  *context = primary(device);
  ++(*context)->retained;
  return cuda::kSuccess;
}

cuda::Rc cuDevicePrimaryCtxRelease_v2(cuda::Device device) {
  cuda::Rc rc = enter("cuDevicePrimaryCtxRelease", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(device)) return cuda::kErrorInvalidDevice;
  if (primary(device)->retained-- <= 0) {
    fake_cuda::violation("cuDevicePrimaryCtxRelease", "released more often than retained");
  }
  return cuda::kSuccess;
}

cuda::Rc cuCtxCreate_v2(cuda::Context* context, unsigned flags, cuda::Device device) {
  cuda::Rc rc = enter("cuCtxCreate", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (!is_device(device) || flags != 0) return cuda::kErrorInvalidValue;
  *context = new CUctx_st;
  (*context)->device = device;
  fake_cuda::push(*context);
  return cuda::kSuccess;
}

cuda::Rc cuCtxDestroy_v2(cuda::Context context) {
  cuda::Rc rc = enter("cuCtxDestroy", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (context == primary(context->device)) {
    fake_cuda::violation("cuCtxDestroy", "a primary context");
  }
  delete context;
  return cuda::kSuccess;
}

cuda::Rc cuCtxPushCurrent_v2(cuda::Context context) {
  cuda::Rc rc = enter("cuCtxPushCurrent", Kind::kQuery);
  if (rc == cuda::kSuccess) fake_cuda::push(context);
  return rc;
}

cuda::Rc cuCtxPopCurrent_v2(cuda::Context* context) {
  cuda::Rc rc = enter("cuCtxPopCurrent", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  *context = fake_cuda::pop();
  return *context == nullptr ? cuda::kErrorInvalidContext : cuda::kSuccess;
}

cuda::Rc cuCtxGetCurrent(cuda::Context* context) {
  *context = fake_cuda::current();
  return enter("cuCtxGetCurrent", Kind::kQuery);
}

cuda::Rc cuCtxGetDevice(cuda::Device* device) {
  cuda::Rc rc = enter("cuCtxGetDevice", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  if (fake_cuda::current() == nullptr) return cuda::kErrorInvalidContext;
  *device = fake_cuda::current()->device;
  return cuda::kSuccess;
}

cuda::Rc cuCtxSetCurrent(cuda::Context context) {
  cuda::Rc rc = enter("cuCtxSetCurrent", Kind::kQuery);
  if (rc != cuda::kSuccess) return rc;
  fake_cuda::pop();
  if (context != nullptr) fake_cuda::push(context);
  return cuda::kSuccess;
}

cuda::Rc cuCtxEnablePeerAccess(cuda::Context peer, unsigned flags) {
  cuda::Rc rc = enter("cuCtxEnablePeerAccess", Kind::kUnsafe);
  if (rc != cuda::kSuccess) return rc;
  if (peer == nullptr || flags != 0) return cuda::kErrorInvalidValue;
  std::lock_guard<std::mutex> lock(fake_cuda::current()->mutex);
  bool added = fake_cuda::current()->friends.insert(peer).second;
  return added ? cuda::kSuccess : cuda::kErrorPeerAccessAlreadyEnabled;
}

cuda::Rc cuThreadExchangeStreamCaptureMode(int* mode) {
  *mode = fake_cuda::exchange_capture_mode(*mode);
  return cuda::kSuccess;
}

const fake_cuda::Hooks* fake_cuda_hooks() { return &kHooks; }
}
#pragma GCC visibility pop

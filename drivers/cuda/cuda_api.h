// The part of the CUDA driver API that this tree calls, as one struct of functions. The prototypes
// are our own, so that building and starting need no CUDA; libcuda.so.1 is bound at run time.
// Source: cuda.h of CUDA 11.7 and later. Each function is bound by the symbol, with its version
// suffix (_v2), that CUDA 12's headers give its plain name. These symbols are unchanged since 11.7,
// the first version with dma-buf export. Where cuda.h is found at build time,
// softhca/gpu/check_against_cuda.cc compares every prototype, constant and layout with it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

// NVIDIA's opaque handles, declared by the tags of cuda.h, so that both headers name one type.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace gdr::cuda {

using Rc = int;      // CUresult
using Device = int;  // CUdevice: a handle, which is not the ordinal that CUDA's users count by
using DevicePtr = unsigned long long;
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using AllocationHandle = unsigned long long;  // CUmemGenericAllocationHandle

// The layouts of CUmemLocation and CUmemAccessDesc.
struct MemoryLocation {
  int type;
  int id;
};
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};

// Values of CUresult.
inline constexpr Rc kSuccess = 0;
inline constexpr Rc kErrorInvalidValue = 1;
inline constexpr Rc kErrorOutOfMemory = 2;
inline constexpr Rc kErrorNotInitialized = 3;
inline constexpr Rc kErrorDeinitialized = 4;
inline constexpr Rc kErrorNoDevice = 100;
inline constexpr Rc kErrorInvalidDevice = 101;
inline constexpr Rc kErrorInvalidContext = 201;
inline constexpr Rc kErrorPeerAccessUnsupported = 217;
inline constexpr Rc kErrorInvalidHandle = 400;
inline constexpr Rc kErrorNotReady = 600;
inline constexpr Rc kErrorIllegalAddress = 700;
inline constexpr Rc kErrorPeerAccessAlreadyEnabled = 704;
inline constexpr Rc kErrorHostMemoryAlreadyRegistered = 712;
inline constexpr Rc kErrorHostMemoryNotRegistered = 713;
inline constexpr Rc kErrorNotSupported = 801;

// Flags and enumerators of the functions below; each is the value of cuda.h's name like it.
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kStreamWriteValueDefault = 0;  // fenced: earlier writes are visible first
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr int kMemoryTypeDevice = 2;
inline constexpr int kRangeHandleDmaBufFd = 1;
inline constexpr int kLocationDevice = 1;
inline constexpr int kAccessReadWrite = 3;
inline constexpr int kCaptureModeGlobal = 0;
inline constexpr int kCaptureModeRelaxed = 2;

// Values of CUpointer_attribute.
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;

// Values of CUdevice_attribute.
inline constexpr int kDeviceCapabilityMajor = 75;
inline constexpr int kDeviceCapabilityMinor = 76;
inline constexpr int kDeviceGpuDirectRdmaSupported = 116;
inline constexpr int kDeviceCanUse64BitStreamMemOps = 122;
inline constexpr int kDeviceDmaBufSupported = 124;

// The driver's functions. The member primary_ctx_retain is cuDevicePrimaryCtxRetain and so on; the
// exact symbols, with their versions, are in bind() below. No member of a bound Api is null.
struct Api {
  Rc (*init)(unsigned flags);
  Rc (*driver_get_version)(int* version);
  Rc (*get_error_name)(Rc error, const char** name);
  Rc (*device_get)(Device* device, int ordinal);
  Rc (*device_get_count)(int* count);
  Rc (*device_get_attribute)(int* value, int attribute, Device device);
  Rc (*device_get_pci_bus_id)(char* text, int size, Device device);
  Rc (*device_can_access_peer)(int* can, Device device, Device peer);
  Rc (*primary_ctx_retain)(Context* context, Device device);
  Rc (*primary_ctx_release)(Device device);
  Rc (*ctx_create)(Context* context, unsigned flags, Device device);
  Rc (*ctx_destroy)(Context context);
  Rc (*ctx_push_current)(Context context);
  Rc (*ctx_pop_current)(Context* context);
  Rc (*ctx_get_current)(Context* context);
  Rc (*ctx_get_device)(Device* device);
  Rc (*ctx_set_current)(Context context);
  Rc (*ctx_enable_peer_access)(Context peer, unsigned flags);
  Rc (*stream_create)(Stream* stream, unsigned flags);
  Rc (*stream_destroy)(Stream stream);
  Rc (*stream_query)(Stream stream);
  Rc (*stream_synchronize)(Stream stream);
  Rc (*stream_write_value64)(Stream stream, DevicePtr address, uint64_t value, unsigned flags);
  Rc (*event_create)(Event* event, unsigned flags);
  Rc (*event_destroy)(Event event);
  Rc (*event_query)(Event event);
  Rc (*event_record)(Event event, Stream stream);
  Rc (*mem_alloc)(DevicePtr* address, size_t bytes);
  Rc (*mem_free)(DevicePtr address);
  Rc (*memcpy_async)(DevicePtr destination, DevicePtr source, size_t bytes, Stream stream);
  Rc (*memset_d8_async)(DevicePtr address, unsigned char value, size_t bytes, Stream stream);
  Rc (*mem_host_register)(void* address, size_t bytes, unsigned flags);
  Rc (*mem_host_unregister)(void* address);
  Rc (*mem_host_get_device_pointer)(DevicePtr* device, void* address, unsigned flags);
  Rc (*mem_get_handle_for_address_range)(void* handle, DevicePtr address, size_t bytes, int type,
                                         unsigned long long flags);
  Rc (*mem_get_address_range)(DevicePtr* base, size_t* bytes, DevicePtr address);
  Rc (*mem_retain_allocation_handle)(AllocationHandle* handle, void* address);
  Rc (*mem_release)(AllocationHandle handle);
  Rc (*mem_address_reserve)(DevicePtr* address, size_t bytes, size_t alignment, DevicePtr hint,
                            unsigned long long flags);
  Rc (*mem_address_free)(DevicePtr address, size_t bytes);
  Rc (*mem_map)(DevicePtr address, size_t bytes, size_t offset, AllocationHandle handle,
                unsigned long long flags);
  Rc (*mem_unmap)(DevicePtr address, size_t bytes);
  Rc (*mem_set_access)(DevicePtr address, size_t bytes, const MemoryAccess* access, size_t count);
  Rc (*pointer_get_attributes)(unsigned count, int* attributes, void** values, DevicePtr address);
  Rc (*thread_exchange_stream_capture_mode)(int* mode);
};

// Returns the driver's name of an error, such as "CUDA_ERROR_ILLEGAL_ADDRESS", or "CUDA error 999"
// for one that the driver does not know.
inline std::string error_name(const Api& api, Rc rc) {
  const char* name = nullptr;
  if (api.get_error_name(rc, &name) != kSuccess || name == nullptr) {
    return "CUDA error " + std::to_string(rc);
  }
  return name;
}

// Makes the kSystem Error of a call that returned `rc`: "<call> failed: <CUDA's name of rc>".
inline tl::unexpected<Error> call_failed(const Api& api, const std::string& call, Rc rc) {
  return fail(Code::kSystem, call + " failed: " + error_name(api, rc));
}

// Finds the ordinal of the device that owns the memory at `address`, and sets *device to -1 if the
// address is not device memory. cuPointerGetAttributes succeeds for memory that CUDA does not know,
// where cuPointerGetAttribute would return CUDA_ERROR_INVALID_VALUE.
inline Rc device_of(const Api& api, DevicePtr address, int* device) {
  unsigned type = 0;
  int ordinal = -1;
  int attributes[] = {kPointerMemoryType, kPointerDeviceOrdinal};
  void* values[] = {&type, &ordinal};
  Rc rc = api.pointer_get_attributes(2, attributes, values, address);
  *device = rc == kSuccess && type == kMemoryTypeDevice ? ordinal : -1;
  return rc;
}

namespace internal {

struct Binder {
  void* library;
  std::string missing;  // symbols that the library lacks, each with a leading space

  template <class Function>
  void operator()(const char* name, Function*& slot) {
    slot = reinterpret_cast<Function*>(dlsym(library, name));
    if (slot == nullptr) missing.append(" ").append(name);
  }
};

inline void bind_devices_and_contexts(Binder& bind, Api& api) {
  bind("cuInit", api.init);
  bind("cuDriverGetVersion", api.driver_get_version);
  bind("cuGetErrorName", api.get_error_name);
  bind("cuDeviceGet", api.device_get);
  bind("cuDeviceGetCount", api.device_get_count);
  bind("cuDeviceGetAttribute", api.device_get_attribute);
  bind("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  bind("cuDeviceCanAccessPeer", api.device_can_access_peer);
  bind("cuDevicePrimaryCtxRetain", api.primary_ctx_retain);
  bind("cuDevicePrimaryCtxRelease_v2", api.primary_ctx_release);
  bind("cuCtxCreate_v2", api.ctx_create);
  bind("cuCtxDestroy_v2", api.ctx_destroy);
  bind("cuCtxPushCurrent_v2", api.ctx_push_current);
  bind("cuCtxPopCurrent_v2", api.ctx_pop_current);
  bind("cuCtxGetCurrent", api.ctx_get_current);
  bind("cuCtxGetDevice", api.ctx_get_device);
  bind("cuCtxSetCurrent", api.ctx_set_current);
  bind("cuCtxEnablePeerAccess", api.ctx_enable_peer_access);
}

inline void bind_streams_and_memory(Binder& bind, Api& api) {
  bind("cuStreamCreate", api.stream_create);
  bind("cuStreamDestroy_v2", api.stream_destroy);
  bind("cuStreamQuery", api.stream_query);
  bind("cuStreamSynchronize", api.stream_synchronize);
  bind("cuStreamWriteValue64_v2", api.stream_write_value64);
  bind("cuEventCreate", api.event_create);
  bind("cuEventDestroy_v2", api.event_destroy);
  bind("cuEventQuery", api.event_query);
  bind("cuEventRecord", api.event_record);
  bind("cuMemAlloc_v2", api.mem_alloc);
  bind("cuMemFree_v2", api.mem_free);
  bind("cuMemcpyAsync", api.memcpy_async);
  bind("cuMemsetD8Async", api.memset_d8_async);
  bind("cuMemHostRegister_v2", api.mem_host_register);
  bind("cuMemHostUnregister", api.mem_host_unregister);
  bind("cuMemHostGetDevicePointer_v2", api.mem_host_get_device_pointer);
  bind("cuMemGetHandleForAddressRange", api.mem_get_handle_for_address_range);
  bind("cuPointerGetAttributes", api.pointer_get_attributes);
  bind("cuThreadExchangeStreamCaptureMode", api.thread_exchange_stream_capture_mode);
}

inline void bind_virtual_memory(Binder& bind, Api& api) {
  bind("cuMemGetAddressRange_v2", api.mem_get_address_range);
  bind("cuMemRetainAllocationHandle", api.mem_retain_allocation_handle);
  bind("cuMemRelease", api.mem_release);
  bind("cuMemAddressReserve", api.mem_address_reserve);
  bind("cuMemAddressFree", api.mem_address_free);
  bind("cuMemMap", api.mem_map);
  bind("cuMemUnmap", api.mem_unmap);
  bind("cuMemSetAccess", api.mem_set_access);
}

}  // namespace internal

// Binds an Api to a libcuda.so.1 that the caller opened by dlopen and keeps open. Returns
// kUnsupported with the missing symbols if the driver is older than CUDA 11.7.
inline Result<Api> bind(void* library) {
  Api api{};
  internal::Binder binder{library, {}};
  internal::bind_devices_and_contexts(binder, api);
  internal::bind_streams_and_memory(binder, api);
  internal::bind_virtual_memory(binder, api);
  if (!binder.missing.empty()) {
    return fail(Code::kUnsupported, "libcuda.so.1 lacks" + binder.missing +
                                        ": a driver of CUDA 11.7 or newer is needed");
  }
  return api;
}

}  // namespace gdr::cuda

// The driver API as the fake exports it.
#pragma once

#include "drivers/cuda/cuda_api.h"

#pragma GCC visibility push(default)
#include "tests/fakes/cuda/fake_cuda.h"

extern "C" {
gdr::cuda::Rc cuInit(unsigned flags);
gdr::cuda::Rc cuDriverGetVersion(int* version);
gdr::cuda::Rc cuGetErrorName(gdr::cuda::Rc error, const char** name);
gdr::cuda::Rc cuDeviceGet(gdr::cuda::Device* device, int ordinal);
gdr::cuda::Rc cuDeviceGetCount(int* count);
gdr::cuda::Rc cuDeviceGetAttribute(int* value, int attribute, gdr::cuda::Device device);
gdr::cuda::Rc cuDeviceGetPCIBusId(char* text, int size, gdr::cuda::Device device);
gdr::cuda::Rc cuDeviceCanAccessPeer(int* can, gdr::cuda::Device device, gdr::cuda::Device peer);
gdr::cuda::Rc cuDevicePrimaryCtxRetain(gdr::cuda::Context* context, gdr::cuda::Device device);
gdr::cuda::Rc cuDevicePrimaryCtxRelease_v2(gdr::cuda::Device device);
gdr::cuda::Rc cuCtxCreate_v2(gdr::cuda::Context* context, unsigned flags, gdr::cuda::Device device);
gdr::cuda::Rc cuCtxDestroy_v2(gdr::cuda::Context context);
gdr::cuda::Rc cuCtxPushCurrent_v2(gdr::cuda::Context context);
gdr::cuda::Rc cuCtxPopCurrent_v2(gdr::cuda::Context* context);
gdr::cuda::Rc cuCtxGetCurrent(gdr::cuda::Context* context);
gdr::cuda::Rc cuCtxGetDevice(gdr::cuda::Device* device);
gdr::cuda::Rc cuCtxSetCurrent(gdr::cuda::Context context);
gdr::cuda::Rc cuCtxEnablePeerAccess(gdr::cuda::Context peer, unsigned flags);
gdr::cuda::Rc cuStreamCreate(gdr::cuda::Stream* stream, unsigned flags);
gdr::cuda::Rc cuStreamDestroy_v2(gdr::cuda::Stream stream);
gdr::cuda::Rc cuStreamQuery(gdr::cuda::Stream stream);
gdr::cuda::Rc cuStreamSynchronize(gdr::cuda::Stream stream);
gdr::cuda::Rc cuStreamWriteValue64_v2(gdr::cuda::Stream stream, gdr::cuda::DevicePtr address,
                                      uint64_t value, unsigned flags);
gdr::cuda::Rc cuEventCreate(gdr::cuda::Event* event, unsigned flags);
gdr::cuda::Rc cuEventDestroy_v2(gdr::cuda::Event event);
gdr::cuda::Rc cuEventQuery(gdr::cuda::Event event);
gdr::cuda::Rc cuEventRecord(gdr::cuda::Event event, gdr::cuda::Stream stream);
gdr::cuda::Rc cuMemAlloc_v2(gdr::cuda::DevicePtr* address, size_t bytes);
gdr::cuda::Rc cuMemFree_v2(gdr::cuda::DevicePtr address);
gdr::cuda::Rc cuMemcpyAsync(gdr::cuda::DevicePtr destination, gdr::cuda::DevicePtr source,
                            size_t bytes, gdr::cuda::Stream stream);
gdr::cuda::Rc cuMemsetD8Async(gdr::cuda::DevicePtr address, unsigned char value, size_t bytes,
                              gdr::cuda::Stream stream);
gdr::cuda::Rc cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags);
gdr::cuda::Rc cuMemHostUnregister(void* address);
gdr::cuda::Rc cuMemHostGetDevicePointer_v2(gdr::cuda::DevicePtr* device, void* address,
                                           unsigned flags);
gdr::cuda::Rc cuMemGetHandleForAddressRange(void* handle, gdr::cuda::DevicePtr address,
                                            size_t bytes, int type, unsigned long long flags);
gdr::cuda::Rc cuMemGetAddressRange_v2(gdr::cuda::DevicePtr* base, size_t* bytes,
                                      gdr::cuda::DevicePtr address);
gdr::cuda::Rc cuMemRetainAllocationHandle(gdr::cuda::AllocationHandle* handle, void* address);
gdr::cuda::Rc cuMemRelease(gdr::cuda::AllocationHandle handle);
gdr::cuda::Rc cuMemAddressReserve(gdr::cuda::DevicePtr* address, size_t bytes, size_t alignment,
                                  gdr::cuda::DevicePtr hint, unsigned long long flags);
gdr::cuda::Rc cuMemAddressFree(gdr::cuda::DevicePtr address, size_t bytes);
gdr::cuda::Rc cuMemMap(gdr::cuda::DevicePtr address, size_t bytes, size_t offset,
                       gdr::cuda::AllocationHandle handle, unsigned long long flags);
gdr::cuda::Rc cuMemUnmap(gdr::cuda::DevicePtr address, size_t bytes);
gdr::cuda::Rc cuMemSetAccess(gdr::cuda::DevicePtr address, size_t bytes,
                             const gdr::cuda::MemoryAccess* access, size_t count);
gdr::cuda::Rc cuPointerGetAttributes(unsigned count, int* attributes, void** values,
                                     gdr::cuda::DevicePtr address);
gdr::cuda::Rc cuThreadExchangeStreamCaptureMode(int* mode);
}
#pragma GCC visibility pop

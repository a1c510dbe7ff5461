// Checks drivers/cuda/cuda_api.h against cuda.h at compile time, where cuda.h is found. It emits no
// code.
#include <cuda.h>

#include <type_traits>

#include "drivers/cuda/cuda_api.h"

namespace gdr::cuda {
namespace {

// Returns true when two types are passed alike in machine code: our int for an enum of CUDA's, our
// tag types for its own.
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using OurTarget = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using TheirTarget = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    if constexpr (std::is_void_v<OurTarget> || std::is_class_v<OurTarget>) {
      return std::is_same_v<OurTarget, TheirTarget>;
    } else {
      return same_value<OurTarget, TheirTarget>();
    }
  } else {
    return !std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> &&
           sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  }
}

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct Same<R1 (*)(A1...), R2(A2...)>
    : std::bool_constant<same_value<R1, R2>() && (same_value<A1, A2>() && ...)> {
};

static_assert(Same<decltype(Api::init), decltype(cuInit)>::value);
static_assert(Same<decltype(Api::driver_get_version), decltype(cuDriverGetVersion)>::value);
static_assert(Same<decltype(Api::get_error_name), decltype(cuGetErrorName)>::value);
static_assert(Same<decltype(Api::device_get), decltype(cuDeviceGet)>::value);
static_assert(Same<decltype(Api::device_get_count), decltype(cuDeviceGetCount)>::value);
static_assert(Same<decltype(Api::device_get_attribute), decltype(cuDeviceGetAttribute)>::value);
static_assert(Same<decltype(Api::device_get_pci_bus_id), decltype(cuDeviceGetPCIBusId)>::value);
static_assert(Same<decltype(Api::device_can_access_peer), decltype(cuDeviceCanAccessPeer)>::value);
static_assert(Same<decltype(Api::primary_ctx_retain), decltype(cuDevicePrimaryCtxRetain)>::value);
static_assert(
    Same<decltype(Api::primary_ctx_release), decltype(cuDevicePrimaryCtxRelease_v2)>::value);
static_assert(Same<decltype(Api::ctx_destroy), decltype(cuCtxDestroy_v2)>::value);
static_assert(Same<decltype(Api::ctx_push_current), decltype(cuCtxPushCurrent_v2)>::value);
static_assert(Same<decltype(Api::ctx_pop_current), decltype(cuCtxPopCurrent_v2)>::value);
static_assert(Same<decltype(Api::ctx_get_current), decltype(cuCtxGetCurrent)>::value);
static_assert(Same<decltype(Api::ctx_get_device), decltype(cuCtxGetDevice)>::value);
static_assert(Same<decltype(Api::ctx_set_current), decltype(cuCtxSetCurrent)>::value);
static_assert(Same<decltype(Api::ctx_enable_peer_access), decltype(cuCtxEnablePeerAccess)>::value);
static_assert(Same<decltype(Api::stream_create), decltype(cuStreamCreate)>::value);
static_assert(Same<decltype(Api::stream_destroy), decltype(cuStreamDestroy_v2)>::value);
static_assert(Same<decltype(Api::stream_query), decltype(cuStreamQuery)>::value);
static_assert(Same<decltype(Api::stream_synchronize), decltype(cuStreamSynchronize)>::value);
static_assert(Same<decltype(Api::stream_write_value64), decltype(cuStreamWriteValue64_v2)>::value);
static_assert(Same<decltype(Api::event_create), decltype(cuEventCreate)>::value);
static_assert(Same<decltype(Api::event_destroy), decltype(cuEventDestroy_v2)>::value);
static_assert(Same<decltype(Api::event_query), decltype(cuEventQuery)>::value);
static_assert(Same<decltype(Api::event_record), decltype(cuEventRecord)>::value);
static_assert(Same<decltype(Api::mem_alloc), decltype(cuMemAlloc_v2)>::value);
static_assert(Same<decltype(Api::mem_get_address_range), decltype(cuMemGetAddressRange_v2)>::value);
static_assert(Same<decltype(Api::mem_retain_allocation_handle),
                   decltype(cuMemRetainAllocationHandle)>::value);
static_assert(Same<decltype(Api::mem_release), decltype(cuMemRelease)>::value);
static_assert(Same<decltype(Api::mem_address_reserve), decltype(cuMemAddressReserve)>::value);
static_assert(Same<decltype(Api::mem_address_free), decltype(cuMemAddressFree)>::value);
static_assert(Same<decltype(Api::mem_map), decltype(cuMemMap)>::value);
static_assert(Same<decltype(Api::mem_unmap), decltype(cuMemUnmap)>::value);
static_assert(sizeof(MemoryAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags) &&
              offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE &&
              kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(Same<decltype(Api::mem_free), decltype(cuMemFree_v2)>::value);
static_assert(Same<decltype(Api::memcpy_async), decltype(cuMemcpyAsync)>::value);
static_assert(Same<decltype(Api::memset_d8_async), decltype(cuMemsetD8Async)>::value);
static_assert(Same<decltype(Api::mem_host_register), decltype(cuMemHostRegister_v2)>::value);
static_assert(Same<decltype(Api::mem_host_unregister), decltype(cuMemHostUnregister)>::value);
static_assert(Same<decltype(Api::mem_host_get_device_pointer),
                   decltype(cuMemHostGetDevicePointer_v2)>::value);
static_assert(Same<decltype(Api::mem_get_handle_for_address_range),
                   decltype(cuMemGetHandleForAddressRange)>::value);
static_assert(Same<decltype(Api::pointer_get_attributes), decltype(cuPointerGetAttributes)>::value);
static_assert(Same<decltype(Api::thread_exchange_stream_capture_mode),
                   decltype(cuThreadExchangeStreamCaptureMode)>::value);

static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kErrorInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kErrorNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kErrorDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kErrorInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(kErrorInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kErrorPeerAccessUnsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(kErrorInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(kErrorNotReady == CUDA_ERROR_NOT_READY);
static_assert(kErrorIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kErrorPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kErrorHostMemoryAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kErrorHostMemoryNotRegistered == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
static_assert(kErrorNotSupported == CUDA_ERROR_NOT_SUPPORTED);

static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kStreamWriteValueDefault == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kRangeHandleDmaBufFd == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(kCaptureModeGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kDeviceGpuDirectRdmaSupported == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(kDeviceCanUse64BitStreamMemOps == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
static_assert(kDeviceDmaBufSupported == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);

}  // namespace
}  // namespace gdr::cuda

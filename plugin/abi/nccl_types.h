// Types and constants that all versions of NCCL's network table share, with the limits of the
// contract. NCCL looks a version up by the name ncclNetPlugin_v<N>; net_v<N>.h has its layout, and
// plugin/net.h says what each call means. Written for this project after NCCL's
// plugins/net/example/nccl/*.h and src/include/plugin/nccl_net.h; names and values are NCCL's.
// Builds that name NCCL's sources (NCCL_SOURCE_DIR) check the layouts against them in
// check_against_nccl.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::abi {

// What a call returns; ncclResult_t of nccl.h. Any failure of a data-path call aborts the
// communicator.
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,    // a system call, a verb or a driver failed
  ncclInternalError = 3,  // a bug of the plugin
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,  // the configuration or the order of calls is wrong
  ncclRemoteError = 6,   // the peer or the network failed
};

// Levels of NCCL_DEBUG.
enum ncclDebugLogLevel : int {
  kLogNone = 0,
  kLogVersion = 1,
  kLogWarn = 2,
  kLogInfo = 3,
  kLogAbort = 4,
  kLogTrace = 5,
};

// NCCL's logger, which init receives. `format` is printf's; `flags` are bits of NCCL_DEBUG_SUBSYS,
// those of gdr::log::Subsystem among them.
using ncclDebugLogger_t = void (*)(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                   int line, const char* format, ...);

// What a plugin reports of an event to NCCL's profiler.
enum ncclProfilerEvent : int {
  kProfilerEventStart = 0,  // ncclProfilerNetEventStart
  kProfilerEventStop = 1,   // ncclProfilerNetEventStop
};

// NCCL's profiler, which init of v10 and later receives. For a start, `phandle` is what isend or
// irecv was given, `plugin_id` names the layout of `data`, and NCCL may set *event; for a stop,
// *event is that value and the other three are not read. `type` is of ncclProfilerEvent.
using ncclProfilerCallback_t = ncclResult_t (*)(void** event, int type, void* phandle,
                                                int64_t plugin_id, void* data);

// Whether a part of the plugin runs on the GPU (device offload).
enum ncclNetDeviceType : int {
  kDeviceHost = 0,    // NCCL_NET_DEVICE_HOST: no
  kDeviceUnpack = 1,  // NCCL_NET_DEVICE_UNPACK: received data is unpacked there
};

inline constexpr int kNetDeviceInvalidVersion = 0;  // goes with kDeviceHost
inline constexpr size_t kHandleMaxBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE, of listen and connect
inline constexpr int kMaxRequests = 32;         // NCCL_NET_MAX_REQUESTS, outstanding per comm
inline constexpr int kMaxRequestsV6 = 8;        // the same up to NCCL 2.18, whose table is v6
inline constexpr int kMaxRecvs = 8;             // buffers of one grouped receive
inline constexpr int kMaxMergedDevicesV9 = 4;   // NCCL_NET_MAX_DEVS_PER_NIC_V11: v9 to v11
inline constexpr int kMaxMergedDevices = 8;     // NCCL_NET_MAX_DEVS_PER_NIC: v12
// NCCL_MAX_NET_SIZE_BYTES, of maxP2pBytes and maxCollBytes.
inline constexpr size_t kMaxNetBytes = size_t{1} << 40;
// MAX_NET_SIZE and MAX_COLLNET_SIZE: what NCCL assumes of a table that has no such fields.
inline constexpr size_t kAssumedP2pBytes = size_t{1} << 30;
inline constexpr size_t kAssumedCollBytes = size_t{512} << 20;
inline constexpr int kTrafficClassUndefined = -1;  // NCCL_NET_TRAFFIC_CLASS_UNDEF
inline constexpr int kNetIdUndefined = -1;         // NCCL_NET_ID_UNDEF, of railId and planeId
inline constexpr int32_t kNetAttrUndefined = -1;   // NCCL_NET_ATTR_UNDEF

// What *request is on entry to irecv of v9 and later where NCCL needs no completion:
// NCCL_NET_OPTIONAL_RECV_COMPLETION. irecv overwrites it in any case.
inline constexpr uintptr_t kOptionalReceiveCompletion = 0x1;

// Bits of ptrSupport. The type argument of regMr is kPtrHost or kPtrCuda.
inline constexpr int kPtrHost = 0x1;    // host memory
inline constexpr int kPtrCuda = 0x2;    // GPU memory, by its address
inline constexpr int kPtrDmaBuf = 0x4;  // GPU memory, as a dma-buf

}  // namespace gdr::abi

// Types and constants that all versions of NCCL's network table share, with the limits of the
// contract. Written for this project after NCCL's plugins/net/example/nccl/*.h and
// src/include/plugin/nccl_net.h; names and values are NCCL's. Builds that name NCCL's headers
// (NCCL_NET_HEADERS_DIR) check the layouts against them in check_against_nccl.cc.
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

// Whether a part of the plugin runs on the GPU (device offload).
enum ncclNetDeviceType : int {
  kDeviceHost = 0,    // NCCL_NET_DEVICE_HOST: no
  kDeviceUnpack = 1,  // NCCL_NET_DEVICE_UNPACK: received data is unpacked there
};

inline constexpr int kNetDeviceInvalidVersion = 0;  // goes with kDeviceHost
inline constexpr size_t kHandleMaxBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE, of listen and connect
inline constexpr int kMaxRequests = 32;         // NCCL_NET_MAX_REQUESTS, outstanding per comm
inline constexpr int kMaxRecvs = 8;             // buffers of one grouped receive

// Bits of ptrSupport. The type argument of regMr is kPtrHost or kPtrCuda.
inline constexpr int kPtrHost = 0x1;    // host memory
inline constexpr int kPtrCuda = 0x2;    // GPU memory, by its address
inline constexpr int kPtrDmaBuf = 0x4;  // GPU memory, as a dma-buf

}  // namespace gdr::abi

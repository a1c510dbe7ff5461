// Types and constants that every version of NCCL's net-plugin table shares, and the bounds of the
// contract. Our own transcription; source: NCCL's plugins/net/example/nccl headers and
// src/include/plugin/nccl_net.h. check_against_nccl.cc compares it with the real headers where a
// build names them (NCCL_NET_HEADERS_DIR).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gdr::abi {

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
};

enum ncclDebugLogLevel : int {
  kLogNone = 0,
  kLogVersion = 1,
  kLogWarn = 2,
  kLogInfo = 3,
  kLogAbort = 4,
  kLogTrace = 5,
};

// printf-style. flags are subsystem bits (gdr::log::Subsystem has those that we use).
using ncclDebugLogger_t = void (*)(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                   int line, const char* format, ...);

enum ncclNetDeviceType : int {
  kDeviceHost = 0,
  kDeviceUnpack = 1,
};

inline constexpr int kNetDeviceInvalidVersion = 0;
inline constexpr size_t kHandleMaxBytes = 128;  // NCCL_NET_HANDLE_MAXSIZE
inline constexpr int kMaxRequests = 32;         // NCCL_NET_MAX_REQUESTS, outstanding per comm
inline constexpr int kMaxRecvs = 8;             // buffers of one grouped receive

// Bits of ptrSupport, and values of regMr's type (kPtrHost or kPtrCuda).
inline constexpr int kPtrHost = 0x1;
inline constexpr int kPtrCuda = 0x2;
inline constexpr int kPtrDmaBuf = 0x4;

}  // namespace gdr::abi

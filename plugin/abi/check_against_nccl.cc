// Checks the layouts of plugin/abi against NCCL's own headers, at compile time; compiled only in
// builds that name those headers (NCCL_NET_HEADERS_DIR).
#include <net.h>

#include "plugin/abi/net_v8.h"

namespace ours = gdr::abi;

#define SAME_OFFSET(type, field)                                          \
  static_assert(offsetof(::type, field) == offsetof(ours::type, field) && \
                sizeof(::type::field) == sizeof(ours::type::field))

static_assert(sizeof(::ncclNetProperties_v8_t) == sizeof(ours::ncclNetProperties_v8_t));
SAME_OFFSET(ncclNetProperties_v8_t, name);
SAME_OFFSET(ncclNetProperties_v8_t, pciPath);
SAME_OFFSET(ncclNetProperties_v8_t, guid);
SAME_OFFSET(ncclNetProperties_v8_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v8_t, regIsGlobal);
SAME_OFFSET(ncclNetProperties_v8_t, speed);
SAME_OFFSET(ncclNetProperties_v8_t, port);
SAME_OFFSET(ncclNetProperties_v8_t, latency);
SAME_OFFSET(ncclNetProperties_v8_t, maxComms);
SAME_OFFSET(ncclNetProperties_v8_t, maxRecvs);
SAME_OFFSET(ncclNetProperties_v8_t, netDeviceType);
SAME_OFFSET(ncclNetProperties_v8_t, netDeviceVersion);

static_assert(sizeof(::ncclNet_v8_t) == sizeof(ours::ncclNet_v8_t));
SAME_OFFSET(ncclNet_v8_t, name);
SAME_OFFSET(ncclNet_v8_t, init);
SAME_OFFSET(ncclNet_v8_t, devices);
SAME_OFFSET(ncclNet_v8_t, getProperties);
SAME_OFFSET(ncclNet_v8_t, listen);
SAME_OFFSET(ncclNet_v8_t, connect);
SAME_OFFSET(ncclNet_v8_t, accept);
SAME_OFFSET(ncclNet_v8_t, regMr);
SAME_OFFSET(ncclNet_v8_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v8_t, deregMr);
SAME_OFFSET(ncclNet_v8_t, isend);
SAME_OFFSET(ncclNet_v8_t, irecv);
SAME_OFFSET(ncclNet_v8_t, iflush);
SAME_OFFSET(ncclNet_v8_t, test);
SAME_OFFSET(ncclNet_v8_t, closeSend);
SAME_OFFSET(ncclNet_v8_t, closeRecv);
SAME_OFFSET(ncclNet_v8_t, closeListen);
SAME_OFFSET(ncclNet_v8_t, getDeviceMr);
SAME_OFFSET(ncclNet_v8_t, irecvConsumed);

static_assert(NCCL_NET_HANDLE_MAXSIZE == ours::kHandleMaxBytes);
static_assert(NCCL_NET_MAX_REQUESTS == ours::kMaxRequests);
static_assert(NCCL_PTR_HOST == ours::kPtrHost && NCCL_PTR_CUDA == ours::kPtrCuda &&
              NCCL_PTR_DMABUF == ours::kPtrDmaBuf);
static_assert(static_cast<int>(::ncclRemoteError) == ours::ncclRemoteError);
static_assert(static_cast<int>(::NCCL_NET_DEVICE_UNPACK) == ours::kDeviceUnpack);

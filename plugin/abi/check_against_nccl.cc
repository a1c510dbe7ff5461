// Checks the layouts of plugin/abi against NCCL's own headers, at compile time; compiled only in
// builds that name NCCL's sources (NCCL_SOURCE_DIR). A release has the headers of the versions that
// it knows.
#include <net.h>

#if __has_include(<profiler_net.h>)
#include <profiler_net.h>
#endif

#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"
#include "plugin/abi/profiler_net_ib.h"

namespace ours = gdr::abi;

#define SAME_SIZE(type) static_assert(sizeof(::type) == sizeof(ours::type))
#define SAME_OFFSET(type, field)                                          \
  static_assert(offsetof(::type, field) == offsetof(ours::type, field) && \
                sizeof(::type::field) == sizeof(ours::type::field))

// The fields of the properties, and the entries of the table, that came with a version. A later
// version has those of the earlier ones, too.
#define PROPERTIES_OF_V6(type)   \
  SAME_SIZE(type);               \
  SAME_OFFSET(type, name);       \
  SAME_OFFSET(type, pciPath);    \
  SAME_OFFSET(type, guid);       \
  SAME_OFFSET(type, ptrSupport); \
  SAME_OFFSET(type, speed);      \
  SAME_OFFSET(type, port);       \
  SAME_OFFSET(type, latency);    \
  SAME_OFFSET(type, maxComms);   \
  SAME_OFFSET(type, maxRecvs)
#define PROPERTIES_OF_V7(type)      \
  PROPERTIES_OF_V6(type);           \
  SAME_OFFSET(type, netDeviceType); \
  SAME_OFFSET(type, netDeviceVersion)
#define PROPERTIES_OF_V8(type) \
  PROPERTIES_OF_V7(type);      \
  SAME_OFFSET(type, regIsGlobal)
#define PROPERTIES_OF_V9(type)    \
  PROPERTIES_OF_V8(type);         \
  SAME_OFFSET(type, forceFlush);  \
  SAME_OFFSET(type, vProps);      \
  SAME_OFFSET(type, maxP2pBytes); \
  SAME_OFFSET(type, maxCollBytes)
#define PROPERTIES_OF_V11(type) \
  PROPERTIES_OF_V9(type);       \
  SAME_OFFSET(type, maxMultiRequestSize)

#define ENTRIES_OF_V6(type)         \
  SAME_SIZE(type);                  \
  SAME_OFFSET(type, name);          \
  SAME_OFFSET(type, init);          \
  SAME_OFFSET(type, devices);       \
  SAME_OFFSET(type, getProperties); \
  SAME_OFFSET(type, listen);        \
  SAME_OFFSET(type, connect);       \
  SAME_OFFSET(type, accept);        \
  SAME_OFFSET(type, regMr);         \
  SAME_OFFSET(type, regMrDmaBuf);   \
  SAME_OFFSET(type, deregMr);       \
  SAME_OFFSET(type, isend);         \
  SAME_OFFSET(type, irecv);         \
  SAME_OFFSET(type, iflush);        \
  SAME_OFFSET(type, test);          \
  SAME_OFFSET(type, closeSend);     \
  SAME_OFFSET(type, closeRecv);     \
  SAME_OFFSET(type, closeListen)
#define ENTRIES_OF_V7(type)       \
  ENTRIES_OF_V6(type);            \
  SAME_OFFSET(type, getDeviceMr); \
  SAME_OFFSET(type, irecvConsumed)
#define ENTRIES_OF_V9(type) \
  ENTRIES_OF_V7(type);      \
  SAME_OFFSET(type, makeVDevice)
#define ENTRIES_OF_V11(type)   \
  ENTRIES_OF_V9(type);         \
  SAME_OFFSET(type, finalize); \
  SAME_OFFSET(type, setNetAttr)

#if __has_include(<net_v6.h>)
PROPERTIES_OF_V6(ncclNetProperties_v6_t);
ENTRIES_OF_V6(ncclNet_v6_t);
#endif

#if __has_include(<net_v7.h>)
SAME_SIZE(ncclNetDeviceHandle_v7_t);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, netDeviceType);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, netDeviceVersion);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, handle);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, size);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, needsProxyProgress);
PROPERTIES_OF_V7(ncclNetProperties_v7_t);
ENTRIES_OF_V7(ncclNet_v7_t);
#endif

#if __has_include(<net_v8.h>)
SAME_SIZE(ncclNetDeviceHandle_v8_t);
PROPERTIES_OF_V8(ncclNetProperties_v8_t);
ENTRIES_OF_V7(ncclNet_v8_t);
#endif

#if __has_include(<net_v9.h>)
SAME_SIZE(ncclNetVDeviceProps_v9_t);
SAME_OFFSET(ncclNetVDeviceProps_v9_t, ndevs);
SAME_OFFSET(ncclNetVDeviceProps_v9_t, devs);
PROPERTIES_OF_V9(ncclNetProperties_v9_t);
ENTRIES_OF_V9(ncclNet_v9_t);
#endif

#if __has_include(<net_v10.h>)
SAME_SIZE(ncclNetVDeviceProps_v10_t);
SAME_SIZE(ncclNetCommConfig_v10_t);
SAME_OFFSET(ncclNetCommConfig_v10_t, trafficClass);
PROPERTIES_OF_V9(ncclNetProperties_v10_t);
ENTRIES_OF_V9(ncclNet_v10_t);
#endif

#if __has_include(<net_v11.h>)
SAME_SIZE(ncclNetVDeviceProps_v11_t);
SAME_SIZE(ncclNetCommConfig_v11_t);
PROPERTIES_OF_V11(ncclNetProperties_v11_t);
SAME_SIZE(ncclNetCommAttr_v11_t);
SAME_OFFSET(ncclNetCommAttr_v11_t, maxConcurrentPeers);
SAME_OFFSET(ncclNetCommAttr_v11_t, minConcurrentPeers);
SAME_OFFSET(ncclNetCommAttr_v11_t, maxFlowsPerPeer);
SAME_OFFSET(ncclNetCommAttr_v11_t, minFlowsPerPeer);
SAME_SIZE(ncclNetAttr_v11_t);
SAME_OFFSET(ncclNetAttr_v11_t, sendCommAttr);
SAME_OFFSET(ncclNetAttr_v11_t, recvCommAttr);
SAME_OFFSET(ncclNetAttr_v11_t, op);
SAME_OFFSET(ncclNetAttr_v11_t, algo);
SAME_OFFSET(ncclNetAttr_v11_t, proto);
ENTRIES_OF_V11(ncclNet_v11_t);
#endif

#if __has_include(<net_v12.h>)
SAME_SIZE(ncclNetCommConfig_v12_t);
SAME_SIZE(ncclNetAttr_v12_t);
SAME_SIZE(ncclNetVDeviceProps_v12_t);
SAME_OFFSET(ncclNetVDeviceProps_v12_t, ndevs);
SAME_OFFSET(ncclNetVDeviceProps_v12_t, devs);
PROPERTIES_OF_V11(ncclNetProperties_v12_t);
SAME_OFFSET(ncclNetProperties_v12_t, railId);
SAME_OFFSET(ncclNetProperties_v12_t, planeId);
ENTRIES_OF_V11(ncclNet_v12_t);
#endif

static_assert(NCCL_NET_HANDLE_MAXSIZE == ours::kHandleMaxBytes);
static_assert(NCCL_NET_MAX_REQUESTS == ours::kMaxRequests ||
              NCCL_NET_MAX_REQUESTS == ours::kMaxRequestsV6);
static_assert(NCCL_PTR_HOST == ours::kPtrHost && NCCL_PTR_CUDA == ours::kPtrCuda &&
              NCCL_PTR_DMABUF == ours::kPtrDmaBuf);
static_assert(static_cast<int>(::ncclRemoteError) == ours::ncclRemoteError);
#if __has_include(<net_device.h>)
static_assert(static_cast<int>(::NCCL_NET_DEVICE_UNPACK) == ours::kDeviceUnpack);
#endif
#ifdef NCCL_NET_OPTIONAL_RECV_COMPLETION
static_assert(NCCL_NET_OPTIONAL_RECV_COMPLETION == ours::kOptionalReceiveCompletion);
static_assert(NCCL_MAX_NET_SIZE_BYTES == ours::kMaxNetBytes);
#endif
#ifdef NCCL_NET_TRAFFIC_CLASS_UNDEF
static_assert(NCCL_NET_TRAFFIC_CLASS_UNDEF == ours::kTrafficClassUndefined);
#endif
#ifdef NCCL_NET_ATTR_UNDEF
static_assert(static_cast<int>(::ncclProfilerNetEventStop) == ours::kProfilerEventStop);
static_assert(NCCL_NET_ATTR_UNDEF == ours::kNetAttrUndefined);
#endif
#ifdef NCCL_NET_ID_UNDEF
static_assert(NCCL_NET_ID_UNDEF == ours::kNetIdUndefined);
static_assert(NCCL_NET_MAX_DEVS_PER_NIC == ours::kMaxMergedDevices);
static_assert(NCCL_NET_MAX_DEVS_PER_NIC_V11 == ours::kMaxMergedDevicesV9);
#endif

// In the headers of the example of a profiler, since NCCL 2.26.
#ifdef NCCL_PROFILER_NET_IB_VER
SAME_SIZE(ncclProfilerNetIbDescr_v1_t);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, type);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp.device);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp.wr_id);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp.opcode);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp.qpNum);
SAME_OFFSET(ncclProfilerNetIbDescr_v1_t, qp.length);
static_assert(static_cast<int64_t>(::NCCL_PROFILER_NET_TYPE_IB) == ours::kProfilerNetTypeIb);
static_assert(NCCL_PROFILER_NET_IB_VER == ours::kProfilerNetIbVersion);
static_assert(static_cast<int>(::ncclProfileQp) == ours::kProfileQp);
#endif

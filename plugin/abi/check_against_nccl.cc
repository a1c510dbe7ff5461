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

#if __has_include(<net_v6.h>)
SAME_SIZE(ncclNetProperties_v6_t);
SAME_OFFSET(ncclNetProperties_v6_t, name);
SAME_OFFSET(ncclNetProperties_v6_t, pciPath);
SAME_OFFSET(ncclNetProperties_v6_t, guid);
SAME_OFFSET(ncclNetProperties_v6_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v6_t, speed);
SAME_OFFSET(ncclNetProperties_v6_t, port);
SAME_OFFSET(ncclNetProperties_v6_t, latency);
SAME_OFFSET(ncclNetProperties_v6_t, maxComms);
SAME_OFFSET(ncclNetProperties_v6_t, maxRecvs);
SAME_SIZE(ncclNet_v6_t);
SAME_OFFSET(ncclNet_v6_t, name);
SAME_OFFSET(ncclNet_v6_t, init);
SAME_OFFSET(ncclNet_v6_t, devices);
SAME_OFFSET(ncclNet_v6_t, getProperties);
SAME_OFFSET(ncclNet_v6_t, listen);
SAME_OFFSET(ncclNet_v6_t, connect);
SAME_OFFSET(ncclNet_v6_t, accept);
SAME_OFFSET(ncclNet_v6_t, regMr);
SAME_OFFSET(ncclNet_v6_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v6_t, deregMr);
SAME_OFFSET(ncclNet_v6_t, isend);
SAME_OFFSET(ncclNet_v6_t, irecv);
SAME_OFFSET(ncclNet_v6_t, iflush);
SAME_OFFSET(ncclNet_v6_t, test);
SAME_OFFSET(ncclNet_v6_t, closeSend);
SAME_OFFSET(ncclNet_v6_t, closeRecv);
SAME_OFFSET(ncclNet_v6_t, closeListen);
#endif

#if __has_include(<net_v7.h>)
SAME_SIZE(ncclNetDeviceHandle_v7_t);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, netDeviceType);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, netDeviceVersion);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, handle);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, size);
SAME_OFFSET(ncclNetDeviceHandle_v7_t, needsProxyProgress);
SAME_SIZE(ncclNetProperties_v7_t);
SAME_OFFSET(ncclNetProperties_v7_t, name);
SAME_OFFSET(ncclNetProperties_v7_t, pciPath);
SAME_OFFSET(ncclNetProperties_v7_t, guid);
SAME_OFFSET(ncclNetProperties_v7_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v7_t, speed);
SAME_OFFSET(ncclNetProperties_v7_t, port);
SAME_OFFSET(ncclNetProperties_v7_t, latency);
SAME_OFFSET(ncclNetProperties_v7_t, maxComms);
SAME_OFFSET(ncclNetProperties_v7_t, maxRecvs);
SAME_OFFSET(ncclNetProperties_v7_t, netDeviceType);
SAME_OFFSET(ncclNetProperties_v7_t, netDeviceVersion);
SAME_SIZE(ncclNet_v7_t);
SAME_OFFSET(ncclNet_v7_t, name);
SAME_OFFSET(ncclNet_v7_t, init);
SAME_OFFSET(ncclNet_v7_t, devices);
SAME_OFFSET(ncclNet_v7_t, getProperties);
SAME_OFFSET(ncclNet_v7_t, listen);
SAME_OFFSET(ncclNet_v7_t, connect);
SAME_OFFSET(ncclNet_v7_t, accept);
SAME_OFFSET(ncclNet_v7_t, regMr);
SAME_OFFSET(ncclNet_v7_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v7_t, deregMr);
SAME_OFFSET(ncclNet_v7_t, isend);
SAME_OFFSET(ncclNet_v7_t, irecv);
SAME_OFFSET(ncclNet_v7_t, iflush);
SAME_OFFSET(ncclNet_v7_t, test);
SAME_OFFSET(ncclNet_v7_t, closeSend);
SAME_OFFSET(ncclNet_v7_t, closeRecv);
SAME_OFFSET(ncclNet_v7_t, closeListen);
SAME_OFFSET(ncclNet_v7_t, getDeviceMr);
SAME_OFFSET(ncclNet_v7_t, irecvConsumed);
#endif

#if __has_include(<net_v8.h>)
SAME_SIZE(ncclNetDeviceHandle_v8_t);
SAME_SIZE(ncclNetProperties_v8_t);
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
SAME_SIZE(ncclNet_v8_t);
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
#endif

#if __has_include(<net_v9.h>)
SAME_SIZE(ncclNetVDeviceProps_v9_t);
SAME_OFFSET(ncclNetVDeviceProps_v9_t, ndevs);
SAME_OFFSET(ncclNetVDeviceProps_v9_t, devs);
SAME_SIZE(ncclNetProperties_v9_t);
SAME_OFFSET(ncclNetProperties_v9_t, name);
SAME_OFFSET(ncclNetProperties_v9_t, pciPath);
SAME_OFFSET(ncclNetProperties_v9_t, guid);
SAME_OFFSET(ncclNetProperties_v9_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v9_t, regIsGlobal);
SAME_OFFSET(ncclNetProperties_v9_t, forceFlush);
SAME_OFFSET(ncclNetProperties_v9_t, speed);
SAME_OFFSET(ncclNetProperties_v9_t, port);
SAME_OFFSET(ncclNetProperties_v9_t, latency);
SAME_OFFSET(ncclNetProperties_v9_t, maxComms);
SAME_OFFSET(ncclNetProperties_v9_t, maxRecvs);
SAME_OFFSET(ncclNetProperties_v9_t, netDeviceType);
SAME_OFFSET(ncclNetProperties_v9_t, netDeviceVersion);
SAME_OFFSET(ncclNetProperties_v9_t, vProps);
SAME_OFFSET(ncclNetProperties_v9_t, maxP2pBytes);
SAME_OFFSET(ncclNetProperties_v9_t, maxCollBytes);
SAME_SIZE(ncclNet_v9_t);
SAME_OFFSET(ncclNet_v9_t, name);
SAME_OFFSET(ncclNet_v9_t, init);
SAME_OFFSET(ncclNet_v9_t, devices);
SAME_OFFSET(ncclNet_v9_t, getProperties);
SAME_OFFSET(ncclNet_v9_t, listen);
SAME_OFFSET(ncclNet_v9_t, connect);
SAME_OFFSET(ncclNet_v9_t, accept);
SAME_OFFSET(ncclNet_v9_t, regMr);
SAME_OFFSET(ncclNet_v9_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v9_t, deregMr);
SAME_OFFSET(ncclNet_v9_t, isend);
SAME_OFFSET(ncclNet_v9_t, irecv);
SAME_OFFSET(ncclNet_v9_t, iflush);
SAME_OFFSET(ncclNet_v9_t, test);
SAME_OFFSET(ncclNet_v9_t, closeSend);
SAME_OFFSET(ncclNet_v9_t, closeRecv);
SAME_OFFSET(ncclNet_v9_t, closeListen);
SAME_OFFSET(ncclNet_v9_t, getDeviceMr);
SAME_OFFSET(ncclNet_v9_t, irecvConsumed);
SAME_OFFSET(ncclNet_v9_t, makeVDevice);
#endif

#if __has_include(<net_v10.h>)
SAME_SIZE(ncclNetVDeviceProps_v10_t);
SAME_SIZE(ncclNetProperties_v10_t);
SAME_SIZE(ncclNetCommConfig_v10_t);
SAME_OFFSET(ncclNetCommConfig_v10_t, trafficClass);
SAME_SIZE(ncclNet_v10_t);
SAME_OFFSET(ncclNet_v10_t, name);
SAME_OFFSET(ncclNet_v10_t, init);
SAME_OFFSET(ncclNet_v10_t, devices);
SAME_OFFSET(ncclNet_v10_t, getProperties);
SAME_OFFSET(ncclNet_v10_t, listen);
SAME_OFFSET(ncclNet_v10_t, connect);
SAME_OFFSET(ncclNet_v10_t, accept);
SAME_OFFSET(ncclNet_v10_t, regMr);
SAME_OFFSET(ncclNet_v10_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v10_t, deregMr);
SAME_OFFSET(ncclNet_v10_t, isend);
SAME_OFFSET(ncclNet_v10_t, irecv);
SAME_OFFSET(ncclNet_v10_t, iflush);
SAME_OFFSET(ncclNet_v10_t, test);
SAME_OFFSET(ncclNet_v10_t, closeSend);
SAME_OFFSET(ncclNet_v10_t, closeRecv);
SAME_OFFSET(ncclNet_v10_t, closeListen);
SAME_OFFSET(ncclNet_v10_t, getDeviceMr);
SAME_OFFSET(ncclNet_v10_t, irecvConsumed);
SAME_OFFSET(ncclNet_v10_t, makeVDevice);
#endif

#if __has_include(<net_v11.h>)
SAME_SIZE(ncclNetVDeviceProps_v11_t);
SAME_SIZE(ncclNetCommConfig_v11_t);
SAME_SIZE(ncclNetProperties_v11_t);
SAME_OFFSET(ncclNetProperties_v11_t, name);
SAME_OFFSET(ncclNetProperties_v11_t, pciPath);
SAME_OFFSET(ncclNetProperties_v11_t, guid);
SAME_OFFSET(ncclNetProperties_v11_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v11_t, regIsGlobal);
SAME_OFFSET(ncclNetProperties_v11_t, forceFlush);
SAME_OFFSET(ncclNetProperties_v11_t, speed);
SAME_OFFSET(ncclNetProperties_v11_t, port);
SAME_OFFSET(ncclNetProperties_v11_t, latency);
SAME_OFFSET(ncclNetProperties_v11_t, maxComms);
SAME_OFFSET(ncclNetProperties_v11_t, maxRecvs);
SAME_OFFSET(ncclNetProperties_v11_t, netDeviceType);
SAME_OFFSET(ncclNetProperties_v11_t, netDeviceVersion);
SAME_OFFSET(ncclNetProperties_v11_t, vProps);
SAME_OFFSET(ncclNetProperties_v11_t, maxP2pBytes);
SAME_OFFSET(ncclNetProperties_v11_t, maxCollBytes);
SAME_OFFSET(ncclNetProperties_v11_t, maxMultiRequestSize);
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
SAME_SIZE(ncclNet_v11_t);
SAME_OFFSET(ncclNet_v11_t, name);
SAME_OFFSET(ncclNet_v11_t, init);
SAME_OFFSET(ncclNet_v11_t, devices);
SAME_OFFSET(ncclNet_v11_t, getProperties);
SAME_OFFSET(ncclNet_v11_t, listen);
SAME_OFFSET(ncclNet_v11_t, connect);
SAME_OFFSET(ncclNet_v11_t, accept);
SAME_OFFSET(ncclNet_v11_t, regMr);
SAME_OFFSET(ncclNet_v11_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v11_t, deregMr);
SAME_OFFSET(ncclNet_v11_t, isend);
SAME_OFFSET(ncclNet_v11_t, irecv);
SAME_OFFSET(ncclNet_v11_t, iflush);
SAME_OFFSET(ncclNet_v11_t, test);
SAME_OFFSET(ncclNet_v11_t, closeSend);
SAME_OFFSET(ncclNet_v11_t, closeRecv);
SAME_OFFSET(ncclNet_v11_t, closeListen);
SAME_OFFSET(ncclNet_v11_t, getDeviceMr);
SAME_OFFSET(ncclNet_v11_t, irecvConsumed);
SAME_OFFSET(ncclNet_v11_t, makeVDevice);
SAME_OFFSET(ncclNet_v11_t, finalize);
SAME_OFFSET(ncclNet_v11_t, setNetAttr);
#endif

#if __has_include(<net_v12.h>)
SAME_SIZE(ncclNetCommConfig_v12_t);
SAME_SIZE(ncclNetAttr_v12_t);
SAME_SIZE(ncclNetVDeviceProps_v12_t);
SAME_OFFSET(ncclNetVDeviceProps_v12_t, ndevs);
SAME_OFFSET(ncclNetVDeviceProps_v12_t, devs);
SAME_SIZE(ncclNetProperties_v12_t);
SAME_OFFSET(ncclNetProperties_v12_t, name);
SAME_OFFSET(ncclNetProperties_v12_t, pciPath);
SAME_OFFSET(ncclNetProperties_v12_t, guid);
SAME_OFFSET(ncclNetProperties_v12_t, ptrSupport);
SAME_OFFSET(ncclNetProperties_v12_t, regIsGlobal);
SAME_OFFSET(ncclNetProperties_v12_t, forceFlush);
SAME_OFFSET(ncclNetProperties_v12_t, speed);
SAME_OFFSET(ncclNetProperties_v12_t, port);
SAME_OFFSET(ncclNetProperties_v12_t, latency);
SAME_OFFSET(ncclNetProperties_v12_t, maxComms);
SAME_OFFSET(ncclNetProperties_v12_t, maxRecvs);
SAME_OFFSET(ncclNetProperties_v12_t, netDeviceType);
SAME_OFFSET(ncclNetProperties_v12_t, netDeviceVersion);
SAME_OFFSET(ncclNetProperties_v12_t, vProps);
SAME_OFFSET(ncclNetProperties_v12_t, maxP2pBytes);
SAME_OFFSET(ncclNetProperties_v12_t, maxCollBytes);
SAME_OFFSET(ncclNetProperties_v12_t, maxMultiRequestSize);
SAME_OFFSET(ncclNetProperties_v12_t, railId);
SAME_OFFSET(ncclNetProperties_v12_t, planeId);
SAME_SIZE(ncclNet_v12_t);
SAME_OFFSET(ncclNet_v12_t, name);
SAME_OFFSET(ncclNet_v12_t, init);
SAME_OFFSET(ncclNet_v12_t, devices);
SAME_OFFSET(ncclNet_v12_t, getProperties);
SAME_OFFSET(ncclNet_v12_t, listen);
SAME_OFFSET(ncclNet_v12_t, connect);
SAME_OFFSET(ncclNet_v12_t, accept);
SAME_OFFSET(ncclNet_v12_t, regMr);
SAME_OFFSET(ncclNet_v12_t, regMrDmaBuf);
SAME_OFFSET(ncclNet_v12_t, deregMr);
SAME_OFFSET(ncclNet_v12_t, isend);
SAME_OFFSET(ncclNet_v12_t, irecv);
SAME_OFFSET(ncclNet_v12_t, iflush);
SAME_OFFSET(ncclNet_v12_t, test);
SAME_OFFSET(ncclNet_v12_t, closeSend);
SAME_OFFSET(ncclNet_v12_t, closeRecv);
SAME_OFFSET(ncclNet_v12_t, closeListen);
SAME_OFFSET(ncclNet_v12_t, getDeviceMr);
SAME_OFFSET(ncclNet_v12_t, irecvConsumed);
SAME_OFFSET(ncclNet_v12_t, makeVDevice);
SAME_OFFSET(ncclNet_v12_t, finalize);
SAME_OFFSET(ncclNet_v12_t, setNetAttr);
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

// ncclNetPlugin_v11, of NCCL 2.28 and later. New: a context for each communicator,
// finalize, setNetAttr. See nccl_types.h.
#pragma once

#include "plugin/abi/net_v10.h"

namespace gdr::abi {

using ncclNetDeviceHandle_v11_t = ncclNetDeviceHandle_v7_t;
using ncclNetVDeviceProps_v11_t = ncclNetVDeviceProps_v9_t;
using ncclNetCommConfig_v11_t = ncclNetCommConfig_v10_t;

struct ncclNetProperties_v11_t {
  char* name;       // shown in logs, and unique
  char* pciPath;    // absolute sysfs path of the PCI function; null when it has none
  uint64_t guid;    // of the card: all its functions have the same
  int ptrSupport;   // kPtrHost | kPtrCuda | kPtrDmaBuf
  int regIsGlobal;  // 1: a registration is valid for every comm of the device
  int forceFlush;   // 1: iflush is needed after each receive, on every generation of GPU
  int speed;        // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // buffers of one grouped receive
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_v11_t vProps;
  size_t maxP2pBytes;       // of one isend or irecv buffer
  size_t maxCollBytes;      // of one operation of a collective network
  int maxMultiRequestSize;  // 1: no requests that stand for several
};

// Hints about how many peers and connections NCCL is going to use at once; kNetAttrUndefined where
// it gives none.
struct ncclNetCommAttr_v11_t {
  int32_t maxConcurrentPeers;
  int32_t minConcurrentPeers;
  int32_t maxFlowsPerPeer;
  int32_t minFlowsPerPeer;
};

struct ncclNetAttr_v11_t {
  ncclNetCommAttr_v11_t sendCommAttr;
  ncclNetCommAttr_v11_t recvCommAttr;
  uint32_t op;     // bit per collective of NCCL
  uint32_t algo;   // bit per algorithm
  uint32_t proto;  // bit per protocol
};

// The table of v11 and v12. init is called for each communicator, and *ctx goes to its other calls;
// finalize ends it. setNetAttr may be null.
template <class Properties, class VDeviceProps>
struct NetTableV11 {
  const char* name;
  ncclResult_t (*init)(void** ctx, uint64_t commId, ncclNetCommConfig_v11_t* config,
                       ncclDebugLogger_t log, ncclProfilerCallback_t profiler);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, Properties* props);
  ncclResult_t (*listen)(void* ctx, int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(void* ctx, int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v11_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm,
                         ncclNetDeviceHandle_v11_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle,
                        void* phandle, void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags,
                        void** mhandles, void** phandles, void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* d, VDeviceProps* props);
  ncclResult_t (*finalize)(void* ctx);
  ncclResult_t (*setNetAttr)(void* ctx, ncclNetAttr_v11_t* netAttr);
};
using ncclNet_v11_t = NetTableV11<ncclNetProperties_v11_t, ncclNetVDeviceProps_v11_t>;

static_assert(sizeof(ncclNetProperties_v11_t) == 112);
static_assert(offsetof(ncclNetProperties_v11_t, maxMultiRequestSize) == 104);
static_assert(sizeof(ncclNetAttr_v11_t) == 44);
static_assert(sizeof(ncclNet_v11_t) == 22 * sizeof(void*));

}  // namespace gdr::abi

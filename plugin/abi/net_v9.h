// ncclNetPlugin_v9, of NCCL 2.24 and later. New: messages above 2 GiB, forced flushes,
// virtual devices. See nccl_types.h.
#pragma once

#include "plugin/abi/net_v8.h"

namespace gdr::abi {

using ncclNetDeviceHandle_v9_t = ncclNetDeviceHandle_v7_t;

// The devices that a device consists of: itself, or those that makeVDevice merged.
struct ncclNetVDeviceProps_v9_t {
  int ndevs;
  int devs[kMaxMergedDevicesV9];
};

struct ncclNetProperties_v9_t {
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
  ncclNetVDeviceProps_v9_t vProps;
  size_t maxP2pBytes;   // of one isend or irecv buffer
  size_t maxCollBytes;  // of one operation of a collective network
};

// makeVDevice is null where the plugin merges no devices.
struct ncclNet_v9_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v9_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v9_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v9_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, size_t size, int tag, void* mhandle,
                        void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, size_t* sizes, int* tags,
                        void** mhandles, void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* d, ncclNetVDeviceProps_v9_t* props);
};

static_assert(sizeof(ncclNetProperties_v9_t) == 104);
static_assert(offsetof(ncclNetProperties_v9_t, forceFlush) == 32);
static_assert(offsetof(ncclNetProperties_v9_t, vProps) == 64);
static_assert(offsetof(ncclNetProperties_v9_t, maxP2pBytes) == 88);
static_assert(sizeof(ncclNet_v9_t) == 20 * sizeof(void*));

}  // namespace gdr::abi

// ncclNetPlugin_v7, of NCCL 2.19 and later. New: device offload. See nccl_types.h.
#pragma once

#include "plugin/abi/nccl_types.h"

namespace gdr::abi {

// For device offload only.
struct ncclNetDeviceHandle_v7_t {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  size_t size;
  int needsProxyProgress;
};

struct ncclNetProperties_v7_t {
  char* name;      // shown in logs, and unique
  char* pciPath;   // absolute sysfs path of the PCI function; null when it has none
  uint64_t guid;   // of the card: all its functions have the same
  int ptrSupport;  // kPtrHost | kPtrCuda | kPtrDmaBuf
  int speed;       // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // buffers of one grouped receive
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};

// The table of v7 and v8, which differ in the type of regMr's size, too. irecvConsumed is null
// here: where it is not, NCCL calls it after every receive.
template <class Properties, class RegisteredSize>
struct NetTableV7 {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, Properties* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v7_t** sendDevComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm, ncclNetDeviceHandle_v7_t** recvDevComm);
  ncclResult_t (*regMr)(void* comm, void* data, RegisteredSize size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* sendComm, void* data, int size, int tag, void* mhandle,
                        void** request);
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                        void** request);
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** dptr_mhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
};
using ncclNet_v7_t = NetTableV7<ncclNetProperties_v7_t, int>;

static_assert(sizeof(ncclNetProperties_v7_t) == 56);
static_assert(offsetof(ncclNetProperties_v7_t, netDeviceType) == 48);
static_assert(sizeof(ncclNet_v7_t) == 19 * sizeof(void*));

}  // namespace gdr::abi

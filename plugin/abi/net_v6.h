// ncclNetPlugin_v6, of NCCL 2.13 and later. The sizes of messages and of regMr are ints. See
// nccl_types.h.
#pragma once

#include "plugin/abi/nccl_types.h"

namespace gdr::abi {

struct ncclNetProperties_v6_t {
  char* name;      // shown in logs, and unique
  char* pciPath;   // absolute sysfs path of the PCI function; null when it has none
  uint64_t guid;   // of the card: all its functions have the same
  int ptrSupport;  // kPtrHost | kPtrCuda | kPtrDmaBuf
  int speed;       // Mb/s
  int port;
  float latency;  // microseconds
  int maxComms;
  int maxRecvs;  // buffers of one grouped receive
};

struct ncclNet_v6_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log);
  ncclResult_t (*devices)(int* ndev);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v6_t* props);
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm);
  ncclResult_t (*accept)(void* listenComm, void** recvComm);
  ncclResult_t (*regMr)(void* comm, void* data, int size, int type, void** mhandle);
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
};

static_assert(sizeof(ncclNetProperties_v6_t) == 48);
static_assert(offsetof(ncclNetProperties_v6_t, ptrSupport) == 24);
static_assert(offsetof(ncclNetProperties_v6_t, maxRecvs) == 44);
static_assert(sizeof(ncclNet_v6_t) == 17 * sizeof(void*));

}  // namespace gdr::abi

// The calls of the reference plugin, once for all versions of the table: with the arguments of the
// newest one. reference_tables.cc converts the others.
#pragma once

#include "plugin/abi/net_v12.h"

namespace gdr::reference {

using abi::ncclResult_t;
using Config = abi::ncclNetCommConfig_v12_t;

// `context` is null where the table has no contexts; from v11 it must be one of init's.
ncclResult_t init(void** context, uint64_t id, Config* config, abi::ncclDebugLogger_t log,
                  abi::ncclProfilerCallback_t profiler);
ncclResult_t finalize(void* context);
ncclResult_t set_net_attr(void* context, abi::ncclNetAttr_v12_t* attributes);

ncclResult_t devices(int* ndev);
ncclResult_t get_properties(int dev, abi::ncclNetProperties_v12_t* props);

ncclResult_t listen(void* context, int dev, void* handle, void** comm);
ncclResult_t connect(void* context, int dev, void* handle, void** comm);
ncclResult_t accept(void* listener, void** comm);
ncclResult_t close_comm(void* comm);
ncclResult_t close_listen(void* comm);

ncclResult_t reg_mr(void* comm, void* data, size_t bytes, int type, void** mhandle);
ncclResult_t reg_mr_dma_buf(void* comm, void* data, size_t bytes, int type, uint64_t offset, int fd,
                            void** mhandle);
ncclResult_t dereg_mr(void* comm, void* mhandle);

ncclResult_t isend(void* comm, void* data, size_t bytes, int tag, void* phandle, void** request);
ncclResult_t irecv(void* comm, int n, void** data, const size_t* sizes, const int* tags,
                   void** phandles, void** request);
ncclResult_t iflush(void* comm, int n, void** data, int* sizes, void** mhandles, void** request);
ncclResult_t test(void* request, int* done, int* sizes);

}  // namespace gdr::reference

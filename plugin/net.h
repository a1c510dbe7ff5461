// The calls of NCCL's network table, once for all its versions: the adapters net_vN.cc only convert
// types. Contract: NCCL's src/include/plugin/nccl_net.h and its docs for network plugins.
//
// Every function logs its failure and returns a code of NCCL's; none lets an exception out.
// Pointers are checked in the calls that set up connections, and not in isend, irecv, iflush and
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "plugin/abi/nccl_types.h"
#include "plugin/device_table.h"
#include "transport/data/receive_comm.h"

namespace gdr::plugin {

inline constexpr char kName[] = "GDR";  // what NCCL_NET selects by

// Finds the devices. NCCL may call it again, and the devices found first then remain. Fails where
// the machine has no usable RDMA device, and NCCL continues with its next transport.
abi::ncclResult_t init(abi::ncclDebugLogger_t logger);
// Sets *count to the number of devices; 0 where NCCL_IB_DISABLE=1.
abi::ncclResult_t devices(int* count);
// Fills *properties; its strings live as long as the process.
abi::ncclResult_t properties(int device, DeviceProperties* properties);

// A connection carries data one way. `handle` is a buffer of abi::kHandleMaxBytes, which NCCL
// copies to the sender. connect and accept do not block: where *comm is null on success, NCCL calls
// again with the same handle or listener.
abi::ncclResult_t listen(int device, void* handle, void** listen_comm);
abi::ncclResult_t connect(int device, void* handle, void** send_comm);
abi::ncclResult_t accept(void* listen_comm, void** recv_comm);
abi::ncclResult_t close_listen(void* listen_comm);
abi::ncclResult_t close_send(void* send_comm);
abi::ncclResult_t close_receive(void* recv_comm);

// Registers memory for `comm`, a send or a receive comm. `type` is abi::kPtrHost or kPtrCuda and
// decides region.cuda, which the adapters leave alone. *handle is valid until deregister_memory(),
// and null after an error.
abi::ncclResult_t register_memory(void* comm, transport::MemoryRegion region, int type,
                                  void** handle);
abi::ncclResult_t deregister_memory(void* comm, void* handle);

// isend and irecv set *request to null where NCCL has to repeat the call later, which is no error;
// iflush does where there is nothing to wait for.
abi::ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* memory,
                        void** request);
abi::ncclResult_t irecv(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                        void** request);
abi::ncclResult_t iflush(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                         void** request);
// Sets *done to 1 once the request is complete, which frees it, and sizes[i] to the bytes of buffer
// i. `sizes` may be null.
abi::ncclResult_t test(void* request, int* done, int* sizes);

// Logs a warning and returns ncclInvalidArgument; for the adapters.
abi::ncclResult_t invalid_argument(const char* call, const char* what);

}  // namespace gdr::plugin

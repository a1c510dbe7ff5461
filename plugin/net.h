// The calls of NCCL's network table, once for all its versions: tables.cc and net_adapter.h only
// convert types. Contract: NCCL's src/include/plugin/nccl_net.h and its docs for network plugins.
//
// Every function logs its failure and returns a code of NCCL's; none lets an exception out.
// Pointers are checked in the calls that set up connections, and not in isend, irecv, iflush and
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "plugin/abi/net_v11.h"
#include "plugin/net_devices.h"
#include "transport/data/receive_comm.h"

namespace gdr::plugin {

struct Communicator;
struct CommunicatorSettings;

// Finds the devices, for the table of that version. NCCL may call it again, for further
// communicators or after it has unloaded the library, and the devices found first then remain; in a
// process that was forked since, they are found anew. Fails where the machine has no usable RDMA
// device, and NCCL continues with its next transport.
abi::ncclResult_t init(int version, abi::ncclDebugLogger_t logger);
// init(), and a new communicator as *context. close_communicator() ends it, once all of its
// connections are closed; null is nothing to end. See OpenCommunicators.
abi::ncclResult_t open_communicator(abi::ncclDebugLogger_t logger,
                                    const CommunicatorSettings& settings, void** context);
abi::ncclResult_t close_communicator(void* context);

// Sets *count to the number of devices; 0 with NCCL_IB_DISABLE.
abi::ncclResult_t devices(int* count);
// Fills *properties; its strings live as long as the process.
abi::ncclResult_t properties(int device, DeviceProperties* properties);
// makeVDevice: merges `count` devices into one, whose number becomes *device, and devices() then
// counts it. See NetDevices. `version` is the table's.
abi::ncclResult_t merge_devices(int version, const int* parts, int count, int* device);
// Whether NCCL flushes after each receive without being asked (NCCL_NET_FORCE_FLUSH).
bool flushes_always();

// A connection carries data one way. `handle` is a buffer of abi::kHandleMaxBytes, which NCCL
// copies to the sender. connect and accept do not block: where *comm is null on success, NCCL calls
// again with the same handle or listener.
//
// communicator: whose connection it is; null: unknown, so that it has the process's options.
abi::ncclResult_t listen(const Communicator* communicator, int device, void* handle,
                         void** listen_comm);
abi::ncclResult_t connect(const Communicator* communicator, int device, void* handle,
                          void** send_comm);
// listen() and connect() for a communicator whose settings are known from here on only.
abi::ncclResult_t listen_with(const CommunicatorSettings& settings, int device, void* handle,
                              void** listen_comm);
abi::ncclResult_t connect_with(const CommunicatorSettings& settings, int device, void* handle,
                               void** send_comm);
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

// isend, irecv and iflush are in net_adapter.h, compiled into each entry of the tables.
template <class T>
T* as_comm(void* comm) {
  return static_cast<T*>(static_cast<transport::Comm*>(comm));
}
// Returns the code of a failed comm, and logs why it failed at the first such call.
[[gnu::cold]] abi::ncclResult_t comm_failure(void* comm);
[[gnu::cold]] abi::ncclResult_t bad_buffer_count(const char* call);
// Sets *done to 1 once the request is complete, which frees it, and sizes[i] to the bytes of buffer
// i, or to less where NCCL's ints cannot hold these or their sum. `sizes` may be null.
abi::ncclResult_t test(void* request, int* done, int* sizes);

// Logs a warning and returns ncclInvalidArgument; for the adapters.
abi::ncclResult_t invalid_argument(const char* call, const char* what);

}  // namespace gdr::plugin

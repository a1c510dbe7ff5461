// What every version of the table does, once. The adapters net_vN.cc only translate types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "plugin/abi/nccl_types.h"
#include "transport/data/receive_comm.h"

namespace gdr::plugin {

inline constexpr char kName[] = "GDR";

struct DeviceProperties {
  char* name;
  char* pci_path;  // null where the device has no place on a PCI tree
  uint64_t guid;
  int pointer_support;  // abi::kPtr* bits
  int speed_mbps;
  int port;
  float latency_us;
  int max_comms;
  int max_recvs;
};

// May be called again at any time; the devices found first stay.
abi::ncclResult_t init(abi::ncclDebugLogger_t logger);
abi::ncclResult_t devices(int* count);
// The strings live as long as the library.
abi::ncclResult_t properties(int device, DeviceProperties* properties);

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

abi::ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* memory,
                        void** request);
abi::ncclResult_t irecv(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                        void** request);
abi::ncclResult_t iflush(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                         void** request);
abi::ncclResult_t test(void* request, int* done, int* sizes);

// For the adapters: an argument that cannot be, told once per call.
abi::ncclResult_t refuse(const char* call, const char* what);

}  // namespace gdr::plugin

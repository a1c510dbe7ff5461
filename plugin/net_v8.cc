// The v8 table: NCCL 2.20 to 2.23 call it directly, later releases through a shim.
#include "plugin/abi/net_v8.h"

#include "plugin/net.h"

namespace gdr::plugin {
namespace {

using abi::ncclResult_t;

ncclResult_t get_properties(int dev, abi::ncclNetProperties_v8_t* props) {
  if (props == nullptr) return invalid_argument("getProperties", "a pointer is null");
  DeviceProperties device;
  if (ncclResult_t result = properties(dev, &device); result != abi::ncclSuccess) return result;
  *props = abi::ncclNetProperties_v8_t{};
  props->name = device.name;
  props->pciPath = device.pci_path;
  props->guid = device.guid;
  props->ptrSupport = device.pointer_support;
  // With regIsGlobal, NCCL registers a buffer once per device, over a loopback comm of its own, and
  // uses that handle on every other comm of the device (ncclNetRegister in NCCL 2.20's
  // src/register.cc; NCCL 2.30 ignores the field). A handle of this plugin belongs to one
  // connection: it holds keys for that connection's rails, and both of its ends agreed on whether
  // it is staged.
  props->regIsGlobal = 0;
  props->speed = device.speed_mbps;
  props->port = device.port;
  props->latency = device.latency_us;
  props->maxComms = device.max_comms;
  props->maxRecvs = device.max_recvs;
  props->netDeviceType = abi::kDeviceHost;
  props->netDeviceVersion = abi::kNetDeviceInvalidVersion;
  return abi::ncclSuccess;
}

// The last argument of connect and accept is for device offload (netDeviceType), which the plugin
// does not have.
ncclResult_t connect_v8(int dev, void* handle, void** send_comm, abi::ncclNetDeviceHandle_v8_t**) {
  return connect(dev, handle, send_comm);
}

ncclResult_t accept_v8(void* listen_comm, void** recv_comm, abi::ncclNetDeviceHandle_v8_t**) {
  return accept(listen_comm, recv_comm);
}

ncclResult_t reg_mr(void* comm, void* data, size_t size, int type, void** mhandle) {
  transport::MemoryRegion region{reinterpret_cast<uintptr_t>(data), size};
  return register_memory(comm, region, type, mhandle);
}

ncclResult_t reg_mr_dmabuf(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                           void** mhandle) {
  if (fd < 0) return invalid_argument("regMrDmaBuf", "the file descriptor is negative");
  transport::MemoryRegion region{reinterpret_cast<uintptr_t>(data), size};
  region.dmabuf_fd = fd;
  region.dmabuf_offset = offset;
  return register_memory(comm, region, type, mhandle);
}

ncclResult_t isend_v8(void* send_comm, void* data, int size, int tag, void* mhandle,
                      void** request) {
  return isend(send_comm, data, static_cast<size_t>(size), tag, mhandle, request);
}

// Collects the parallel arrays of a grouped call. Returns false where there are too few or too
// many.
bool gather(int n, void** data, const int* sizes, const int* tags, void** mhandles,
            transport::ReceiveBuffer* buffers) {
  if (n < 1 || n > abi::kMaxRecvs) [[unlikely]]
    return false;
  for (int i = 0; i < n; ++i) {
    buffers[i] = transport::ReceiveBuffer{data[i], static_cast<size_t>(sizes[i]),
                                          tags == nullptr ? 0 : tags[i],
                                          static_cast<transport::MemoryHandle*>(mhandles[i])};
  }
  return true;
}

ncclResult_t irecv_v8(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles,
                      void** request) {
  *request = nullptr;
  transport::ReceiveBuffer buffers[abi::kMaxRecvs];
  if (!gather(n, data, sizes, tags, mhandles, buffers)) {
    return invalid_argument("irecv", "the number of buffers is not within 1 and 8");
  }
  return irecv(recv_comm, buffers, n, request);
}

ncclResult_t iflush_v8(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                       void** request) {
  *request = nullptr;
  transport::ReceiveBuffer buffers[abi::kMaxRecvs];
  if (!gather(n, data, sizes, nullptr, mhandles, buffers)) {
    return invalid_argument("iflush", "the number of buffers is not within 1 and 8");
  }
  return iflush(recv_comm, buffers, n, request);
}

}  // namespace
}  // namespace gdr::plugin

extern "C" __attribute__((visibility("default"))) const gdr::abi::ncclNet_v8_t ncclNetPlugin_v8 = {
    .name = gdr::plugin::kName,
    .init = gdr::plugin::init,
    .devices = gdr::plugin::devices,
    .getProperties = gdr::plugin::get_properties,
    .listen = gdr::plugin::listen,
    .connect = gdr::plugin::connect_v8,
    .accept = gdr::plugin::accept_v8,
    .regMr = gdr::plugin::reg_mr,
    .regMrDmaBuf = gdr::plugin::reg_mr_dmabuf,
    .deregMr = gdr::plugin::deregister_memory,
    .isend = gdr::plugin::isend_v8,
    .irecv = gdr::plugin::irecv_v8,
    .iflush = gdr::plugin::iflush_v8,
    .test = gdr::plugin::test,
    .closeSend = gdr::plugin::close_send,
    .closeRecv = gdr::plugin::close_receive,
    .closeListen = gdr::plugin::close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
};

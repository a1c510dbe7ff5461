// Conversions from the types of a version of NCCL's table to those of plugin/net.h and of the
// transport. A function here is the entry of several versions; tables.cc says of which.
#pragma once

#include <algorithm>
#include <iterator>

#include "plugin/abi/net_v12.h"
#include "plugin/abi/net_v6.h"
#include "plugin/communicator.h"
#include "plugin/guarded.h"
#include "plugin/net.h"
#include "transport/data/receive_comm.h"
#include "transport/data/send_comm.h"

namespace gdr::plugin {

// ---- getProperties

// Fills the fields that the struct of a version has. nccl_flushes: after each receive, without
// being asked; GPUDirect over a device that needs that delivers data too early where NCCL does not.
//
// regIsGlobal, of v8 and later, stays 0. Where it is 1, NCCL registers a buffer once per device,
// over a loopback comm of its own, and uses that handle on every other comm of the device
// (ncclNetRegister in NCCL 2.20's src/register.cc; NCCL 2.30 ignores the field). A handle of this
// plugin belongs to one connection: it holds keys for that connection's rails.
template <class Properties>
void fill_properties(const DeviceProperties& device, bool nccl_flushes, Properties* props) {
  constexpr bool kCanForceFlush = requires { props->forceFlush; };
  const bool flushes = kCanForceFlush || nccl_flushes;
  *props = Properties{};
  props->name = device.name;
  props->pciPath = device.pci_path;
  props->guid = device.guid;
  props->ptrSupport = device.force_flush && !flushes ? abi::kPtrHost : device.pointer_support;
  props->speed = device.speed_mbps;
  props->port = device.port;
  props->latency = device.latency_us;
  props->maxComms = device.max_comms;
  props->maxRecvs = device.max_recvs;
  if constexpr (requires { props->netDeviceType; }) {
    props->netDeviceType = abi::kDeviceHost;  // nothing of the plugin runs on the GPU
    props->netDeviceVersion = abi::kNetDeviceInvalidVersion;
  }
  if constexpr (kCanForceFlush) {
    props->forceFlush = device.force_flush ? 1 : 0;
    // A table has room for as many as its makeVDevice merges.
    props->vProps.ndevs =
        std::min(device.part_count, static_cast<int>(std::size(props->vProps.devs)));
    std::copy_n(device.parts.begin(), props->vProps.ndevs, props->vProps.devs);
    props->maxP2pBytes = device.max_p2p_bytes;
    props->maxCollBytes = abi::kAssumedCollBytes;  // the plugin has no collective network
  }
  if constexpr (requires { props->maxMultiRequestSize; }) props->maxMultiRequestSize = 1;
  if constexpr (requires { props->railId; }) {
    props->railId = device.rail;
    props->planeId = device.plane;
  }
}

template <class Properties>
abi::ncclResult_t get_properties(int dev, Properties* props) {
  if (props == nullptr) return invalid_argument("getProperties", "a pointer is null");
  DeviceProperties device;
  const abi::ncclResult_t result = properties(dev, &device);
  if (result == abi::ncclSuccess) fill_properties(device, flushes_always(), props);
  return result;
}

// makeVDevice, of v9 and later.
template <int kVersion, class VDeviceProps>
abi::ncclResult_t make_v_device(int* device, VDeviceProps* parts) {
  if (device == nullptr || parts == nullptr) {
    return invalid_argument("makeVDevice", "a pointer is null");
  }
  return merge_devices(kVersion, parts->devs, parts->ndevs, device);
}

// ---- set-up

// init of the versions before v10.
template <int kVersion>
abi::ncclResult_t init_table(abi::ncclDebugLogger_t logger) {
  return init(kVersion, logger);
}

// The last argument of connect and accept, which v6 lacks, is for device offload (netDeviceType),
// which the plugin does not have.
template <class... DeviceHandle>
abi::ncclResult_t connect_without_context(int dev, void* handle, void** send_comm,
                                          DeviceHandle...) {
  return connect(nullptr, dev, handle, send_comm);
}

inline abi::ncclResult_t listen_without_context(int dev, void* handle, void** listen_comm) {
  return listen(nullptr, dev, handle, listen_comm);
}

template <class... DeviceHandle>
abi::ncclResult_t accept_host(void* listen_comm, void** recv_comm, DeviceHandle...) {
  return accept(listen_comm, recv_comm);
}

// Size is int in v6 and v7.
template <class Size>
abi::ncclResult_t reg_mr(void* comm, void* data, Size size, int type, void** mhandle) {
  if constexpr (sizeof(Size) < sizeof(size_t)) {
    if (size < 0) return invalid_argument("regMr", "the size is negative");
  }
  return register_memory(comm, {reinterpret_cast<uintptr_t>(data), static_cast<size_t>(size)}, type,
                         mhandle);
}

inline abi::ncclResult_t reg_mr_dmabuf(void* comm, void* data, size_t size, int type,
                                       uint64_t offset, int fd, void** mhandle) {
  if (fd < 0) return invalid_argument("regMrDmaBuf", "the file descriptor is negative");
  transport::MemoryRegion region{reinterpret_cast<uintptr_t>(data), size};
  region.dmabuf_fd = fd;
  region.dmabuf_offset = offset;
  return register_memory(comm, region, type, mhandle);
}

// ---- data path. *request may be anything on entry, kOptionalReceiveCompletion among others, and
// is overwritten on every path.

// The end of each call that posts a request: hands it to NCCL, also where it is null. alive: the
// comm has not failed.
[[gnu::always_inline]] inline abi::ncclResult_t hand_over(transport::Request* posted, bool alive,
                                                          void* comm, void** request) {
  *request = posted;
  if (!alive) [[unlikely]]
    return comm_failure(comm);
  return abi::ncclSuccess;
}

// Size is int before v9. The transport refuses a negative one, which is more than it sends. It and
// irecv() are inline in isend_observed() and irecv_observed(), too.
template <class Size>
[[gnu::always_inline]] inline abi::ncclResult_t isend(void* send_comm, void* data, Size size,
                                                      int tag, void* mhandle, void** request) {
  return guarded("isend", [&] {
    transport::Request* posted;
    const bool alive = as_comm<transport::SendComm>(send_comm)->isend(
        data, static_cast<size_t>(size), tag, *static_cast<transport::MemoryHandle*>(mhandle),
        &posted);
    return hand_over(posted, alive, send_comm, request);
  });
}

// The entries of comms that are observed, out of line, so that the others save no registers for
// them.
[[gnu::cold, gnu::noinline]] inline abi::ncclResult_t isend_reported(void* send_comm, void* data,
                                                                     size_t size, int tag,
                                                                     void* mhandle, void* phandle,
                                                                     void** request) {
  return guarded("isend", [&] {
    transport::Request* posted;
    const bool alive = as_comm<transport::SendComm>(send_comm)->isend_observed(
        data, size, tag, *static_cast<transport::MemoryHandle*>(mhandle), phandle, &posted);
    return hand_over(posted, alive, send_comm, request);
  });
}

inline abi::ncclResult_t isend_observed(void* send_comm, void* data, size_t size, int tag,
                                        void* mhandle, void* phandle, void** request) {
  if (as_comm<transport::SendComm>(send_comm)->is_observed()) [[unlikely]]
    return isend_reported(send_comm, data, size, tag, mhandle, phandle, request);
  return isend(send_comm, data, size, tag, mhandle, request);
}

inline bool is_buffer_count(int n) { return n >= 1 && n <= abi::kMaxRecvs; }

// The sizes of a grouped call before v9. Of too few or too many buffers: none.
struct LargeSizes {
  LargeSizes(int n, const int* sizes) {
    if (is_buffer_count(n)) std::copy_n(sizes, n, bytes);
  }
  size_t bytes[abi::kMaxRecvs];
};

// The entry of v9 and later, whose sizes are the transport's: nothing is copied.
[[gnu::always_inline]] inline abi::ncclResult_t irecv(void* recv_comm, int n, void** data,
                                                      size_t* sizes, int* tags, void** mhandles,
                                                      void** request) {
  *request = nullptr;
  return guarded("irecv", [&] {
    if (!is_buffer_count(n)) [[unlikely]]
      return bad_buffer_count("irecv");
    transport::Request* posted;
    const bool alive = as_comm<transport::ReceiveComm>(recv_comm)->irecv(
        transport::ReceiveArrays{n, data, sizes, tags, mhandles}, &posted);
    return hand_over(posted, alive, recv_comm, request);
  });
}

inline abi::ncclResult_t irecv(void* recv_comm, int n, void** data, int* sizes, int* tags,
                               void** mhandles, void** request) {
  LargeSizes large(n, sizes);
  return irecv(recv_comm, n, data, large.bytes, tags, mhandles, request);
}

[[gnu::cold, gnu::noinline]] inline abi::ncclResult_t irecv_reported(void* recv_comm, int n,
                                                                     void** data, size_t* sizes,
                                                                     int* tags, void** mhandles,
                                                                     void** phandles,
                                                                     void** request) {
  *request = nullptr;
  return guarded("irecv", [&] {
    if (!is_buffer_count(n)) return bad_buffer_count("irecv");
    transport::Request* posted;
    const bool alive = as_comm<transport::ReceiveComm>(recv_comm)->irecv_observed(
        transport::ReceiveArrays{n, data, sizes, tags, mhandles}, phandles, &posted);
    return hand_over(posted, alive, recv_comm, request);
  });
}

inline abi::ncclResult_t irecv_observed(void* recv_comm, int n, void** data, size_t* sizes,
                                        int* tags, void** mhandles, void** phandles,
                                        void** request) {
  if (as_comm<transport::ReceiveComm>(recv_comm)->is_observed()) [[unlikely]]
    return irecv_reported(recv_comm, n, data, sizes, tags, mhandles, phandles, request);
  return irecv(recv_comm, n, data, sizes, tags, mhandles, request);
}

inline abi::ncclResult_t iflush(void* recv_comm, int n, void** data, int* sizes, void** mhandles,
                                void** request) {
  *request = nullptr;
  return guarded("iflush", [&] {
    if (!is_buffer_count(n)) [[unlikely]]
      return bad_buffer_count("iflush");
    const LargeSizes large(n, sizes);
    transport::Request* posted;
    const bool alive = as_comm<transport::ReceiveComm>(recv_comm)->iflush(
        transport::ReceiveArrays{n, data, large.bytes, nullptr, mhandles}, &posted);
    return hand_over(posted, alive, recv_comm, request);
  });
}

// ---- the entries of v11 and v12 that differ from those of earlier versions

template <int kVersion>
abi::ncclResult_t init_communicator(void** ctx, uint64_t id, abi::ncclNetCommConfig_v11_t* config,
                                    abi::ncclDebugLogger_t logger,
                                    abi::ncclProfilerCallback_t profiler) {
  CommunicatorSettings settings;
  settings.table_version = kVersion;
  settings.id = id;
  if (config != nullptr) settings.traffic_class = config->trafficClass;
  settings.profiler = profiler;
  return open_communicator(logger, settings, ctx);
}

inline abi::ncclResult_t listen_for(void* ctx, int dev, void* handle, void** listen_comm) {
  return listen(static_cast<Communicator*>(ctx), dev, handle, listen_comm);
}

inline abi::ncclResult_t connect_for(void* ctx, int dev, void* handle, void** send_comm,
                                     abi::ncclNetDeviceHandle_v11_t**) {
  return connect(static_cast<Communicator*>(ctx), dev, handle, send_comm);
}

}  // namespace gdr::plugin

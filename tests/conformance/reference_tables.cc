// The tables of the reference plugin, of every version. An entry whose arguments differ between
// versions is an overload for each form; the type of the table's slot selects it.
#include <algorithm>

#include "tests/conformance/reference_net.h"
#include "tools/net/table_types.h"

namespace gdr::reference {
namespace {
using Log = abi::ncclDebugLogger_t;
using Profiler = abi::ncclProfilerCallback_t;
using Offload = abi::ncclNetDeviceHandle_v7_t;

ncclResult_t init_entry(Log log) { return init(nullptr, 0, nullptr, log, nullptr); }
ncclResult_t init_entry(Log log, Profiler profiler) {
  return init(nullptr, 0, nullptr, log, profiler);
}
ncclResult_t init_entry(void** context, uint64_t id, Config* config, Log log, Profiler profiler) {
  return init(context, id, config, log, profiler);
}

template <class Properties>
ncclResult_t properties_entry(int dev, Properties* p) {
  abi::ncclNetProperties_v12_t newest;
  ncclResult_t result = get_properties(dev, &newest);
  if (result != abi::ncclSuccess) return result;
  *p = {};
  p->name = newest.name;
  p->pciPath = newest.pciPath;
  p->guid = newest.guid;
  p->ptrSupport = newest.ptrSupport;
  p->speed = newest.speed;
  p->port = newest.port;
  p->latency = newest.latency;
  p->maxComms = newest.maxComms;
  p->maxRecvs = newest.maxRecvs;
  if constexpr (requires { p->regIsGlobal; }) p->regIsGlobal = newest.regIsGlobal;
  if constexpr (requires { p->netDeviceType; }) {
    p->netDeviceType = newest.netDeviceType;
    p->netDeviceVersion = newest.netDeviceVersion;
  }
  if constexpr (requires { p->vProps; }) {
    p->forceFlush = newest.forceFlush;
    p->vProps.ndevs = newest.vProps.ndevs;
    std::copy_n(newest.vProps.devs, std::size(p->vProps.devs), p->vProps.devs);
    p->maxP2pBytes = newest.maxP2pBytes;
    p->maxCollBytes = newest.maxCollBytes;
  }
  if constexpr (requires { p->maxMultiRequestSize; }) {
    p->maxMultiRequestSize = newest.maxMultiRequestSize;
  }
  if constexpr (requires { p->railId; }) {
    p->railId = newest.railId;
    p->planeId = newest.planeId;
  }
  return abi::ncclSuccess;
}

ncclResult_t listen_entry(int dev, void* handle, void** comm) {
  return listen(nullptr, dev, handle, comm);
}
// Nobody but init makes a context, so from v11 a null one is an error.
ncclResult_t listen_entry(void* context, int dev, void* handle, void** comm) {
  return context == nullptr ? abi::ncclInvalidArgument : listen(context, dev, handle, comm);
}

ncclResult_t connect_entry(int dev, void* handle, void** comm) {
  return connect(nullptr, dev, handle, comm);
}
ncclResult_t connect_entry(int dev, void* handle, void** comm, Offload**) {
  return connect(nullptr, dev, handle, comm);
}
ncclResult_t connect_entry(int dev, Config*, void* handle, void** comm, Offload**) {
  return connect(nullptr, dev, handle, comm);
}
ncclResult_t connect_entry(void* context, int dev, void* handle, void** comm, Offload**) {
  return context == nullptr ? abi::ncclInvalidArgument : connect(context, dev, handle, comm);
}

ncclResult_t accept_entry(void* listener, void** comm) { return accept(listener, comm); }
ncclResult_t accept_entry(void* listener, void** comm, Offload**) { return accept(listener, comm); }

template <class Size>
ncclResult_t reg_mr_entry(void* comm, void* data, Size bytes, int type, void** mhandle) {
  return reg_mr(comm, data, static_cast<size_t>(bytes), type, mhandle);
}

template <class Size>
ncclResult_t isend_entry(void* comm, void* data, Size bytes, int tag, void*, void** request) {
  return isend(comm, data, static_cast<size_t>(bytes), tag, nullptr, request);
}
ncclResult_t isend_entry(void* comm, void* data, size_t bytes, int tag, void*, void* phandle,
                         void** request) {
  return isend(comm, data, bytes, tag, phandle, request);
}

template <class Size>
ncclResult_t irecv_entry(void* comm, int n, void** data, Size* sizes, int* tags, void**,
                         void** request) {
  size_t wide[abi::kMaxRecvs];
  if (n < 1 || n > abi::kMaxRecvs) return abi::ncclInvalidArgument;
  std::copy_n(sizes, n, wide);
  return irecv(comm, n, data, wide, tags, nullptr, request);
}
ncclResult_t irecv_entry(void* comm, int n, void** data, size_t* sizes, int* tags, void**,
                         void** phandles, void** request) {
  if (n < 1 || n > abi::kMaxRecvs) return abi::ncclInvalidArgument;
  return irecv(comm, n, data, sizes, tags, phandles, request);
}

template <class Props>
ncclResult_t make_v_device_entry(int* dev, Props* props) {
  abi::ncclNetVDeviceProps_v12_t newest{};
  if (props->ndevs < 0 || props->ndevs > static_cast<int>(std::size(props->devs))) {
    return abi::ncclInvalidArgument;
  }
  newest.ndevs = props->ndevs;
  std::copy_n(props->devs, std::size(props->devs), newest.devs);
  return make_v_device(dev, newest);
}

template <int kVersion>
constexpr tools::TableOf<kVersion> make_table() {
  tools::TableOf<kVersion> t{};
  t.name = "Reference";
  t.init = init_entry;
  t.devices = devices;
  t.getProperties = properties_entry;
  t.listen = listen_entry;
  t.connect = connect_entry;
  t.accept = accept_entry;
  t.regMr = reg_mr_entry;
  t.regMrDmaBuf = reg_mr_dma_buf;
  t.deregMr = dereg_mr;
  t.isend = isend_entry;
  t.irecv = irecv_entry;
  t.iflush = iflush;
  t.test = test;
  t.closeSend = close_comm;
  t.closeRecv = close_comm;
  t.closeListen = close_listen;
  if constexpr (requires { t.makeVDevice; }) t.makeVDevice = make_v_device_entry;
  if constexpr (requires { t.finalize; }) {
    t.finalize = finalize;
    t.setNetAttr = set_net_attr;
  }
  return t;
}
}  // namespace
}  // namespace gdr::reference

#define REFERENCE_TABLE(version)                                    \
  extern "C" __attribute__((visibility("default")))                 \
  const gdr::abi::ncclNet_v##version##_t ncclNetPlugin_v##version = \
      gdr::reference::make_table<version>();
REFERENCE_TABLE(6)
REFERENCE_TABLE(7)
REFERENCE_TABLE(8)
REFERENCE_TABLE(9)
REFERENCE_TABLE(10)
REFERENCE_TABLE(11)
REFERENCE_TABLE(12)
#undef REFERENCE_TABLE

// A small network plugin over TCP, for tests of the tools that drive plugins. It is correct unless
// REFERENCE_PLUGIN_DEFECT selects a defect (defect.h).
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "tests/conformance/defect.h"
#include "tests/conformance/reference_listen.h"

namespace gdr::reference {
namespace {
using abi::ncclResult_t;
constexpr int kDevices = 2;
int g_inits = 0;
char g_names[kDevices][8] = {"ref0", "ref1"};

ncclResult_t init(abi::ncclDebugLogger_t log) {
  constexpr unsigned long kInit = 0x1;
  if (g_inits++ > 0 && has_defect("not_again")) return abi::ncclInternalError;
  log(abi::kLogInfo, kInit, __FILE__, __LINE__, "NET/Reference : %d devices over TCP", kDevices);
  return abi::ncclSuccess;
}

ncclResult_t devices(int* ndev) {
  *ndev = kDevices;
  return abi::ncclSuccess;
}

ncclResult_t get_properties(int dev, abi::ncclNetProperties_v8_t* props) {
  if (dev < 0 || dev >= kDevices) {
    if (has_defect("crashes_on_bad_device")) raise(SIGSEGV);
    return abi::ncclInvalidArgument;
  }
  *props = {};
  props->name = g_names[dev];
  props->guid = static_cast<uint64_t>(dev) + 1;
  props->ptrSupport = abi::kPtrHost;
  props->speed = has_defect("no_speed") ? 0 : 10000;
  props->port = 1;
  props->maxComms = 1024;
  props->maxRecvs = abi::kMaxRecvs;
  props->netDeviceType = abi::kDeviceHost;
  props->netDeviceVersion = abi::kNetDeviceInvalidVersion;
  return abi::ncclSuccess;
}

ncclResult_t listen(int dev, void* opaque, void** comm) {
  if (dev < 0 || dev >= kDevices) return abi::ncclInvalidArgument;
  Handle handle;
  *comm = ListenComm::open(&handle);
  std::memset(opaque, 0, abi::kHandleMaxBytes + (has_defect("long_handle") ? 1 : 0));
  std::memcpy(opaque, &handle, sizeof(handle));
  return *comm == nullptr ? abi::ncclSystemError : abi::ncclSuccess;
}

ncclResult_t connect(int, void* opaque, void** comm, abi::ncclNetDeviceHandle_v8_t**) {
  *comm = nullptr;
  Handle handle;
  std::memcpy(&handle, opaque, sizeof(handle));
  if (handle.connecting == nullptr) {
    handle.connecting = Connecting::start(handle);
    if (handle.connecting == nullptr) return abi::ncclRemoteError;
    std::memcpy(opaque, &handle, sizeof(handle));
  }
  SendComm* made = nullptr;
  ncclResult_t result = handle.connecting->step(&made);
  if (made == nullptr && result == abi::ncclSuccess) return result;
  delete handle.connecting;
  handle.connecting = nullptr;
  std::memcpy(opaque, &handle, sizeof(handle));
  *comm = static_cast<Comm*>(made);
  return result;
}

ncclResult_t accept(void* listener, void** comm, abi::ncclNetDeviceHandle_v8_t**) {
  RecvComm* made = nullptr;
  ncclResult_t result = static_cast<ListenComm*>(listener)->accept(&made);
  *comm = static_cast<Comm*>(made);
  return result;
}

ncclResult_t reg_mr(void*, void* data, size_t, int type, void** mhandle) {
  if (type != abi::kPtrHost && !has_defect("takes_any_memory")) return abi::ncclInvalidArgument;
  *mhandle = data;
  return abi::ncclSuccess;
}

ncclResult_t reg_mr_dma_buf(void*, void*, size_t, int, uint64_t, int, void**) {
  return abi::ncclInvalidUsage;
}

ncclResult_t dereg_mr(void*, void*) { return abi::ncclSuccess; }

ncclResult_t isend(void* comm, void* data, int size, int tag, void*, void** request) {
  return static_cast<SendComm*>(static_cast<Comm*>(comm))->isend(data, size, tag, request);
}

ncclResult_t irecv(void* comm, int n, void** data, int* sizes, int* tags, void**, void** request) {
  return static_cast<RecvComm*>(static_cast<Comm*>(comm))->irecv(n, data, sizes, tags, request);
}

ncclResult_t iflush(void*, int, void**, int*, void**, void** request) {
  *request = nullptr;
  return abi::ncclSuccess;
}

ncclResult_t test(void* opaque, int* done, int* sizes) {
  auto* request = static_cast<Request*>(opaque);
  if (has_defect("hangs_in_test")) {
    for (;;) pause();
  }
  return request->comm->test(request, done, sizes);
}

ncclResult_t close_comm(void* comm) {
  delete static_cast<Comm*>(comm);
  return abi::ncclSuccess;
}

ncclResult_t close_listen(void* comm) {
  delete static_cast<ListenComm*>(comm);
  return abi::ncclSuccess;
}
}  // namespace
}  // namespace gdr::reference

extern "C" __attribute__((visibility("default"))) const gdr::abi::ncclNet_v8_t ncclNetPlugin_v8 = {
    "Reference",
    gdr::reference::init,
    gdr::reference::devices,
    gdr::reference::get_properties,
    gdr::reference::listen,
    gdr::reference::connect,
    gdr::reference::accept,
    gdr::reference::reg_mr,
    gdr::reference::reg_mr_dma_buf,
    gdr::reference::dereg_mr,
    gdr::reference::isend,
    gdr::reference::irecv,
    gdr::reference::iflush,
    gdr::reference::test,
    gdr::reference::close_comm,
    gdr::reference::close_comm,
    gdr::reference::close_listen,
    nullptr,
    nullptr,
};

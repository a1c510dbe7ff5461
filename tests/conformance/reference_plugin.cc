// A small network plugin over TCP, for tests of the tools that drive plugins. It is correct unless
// REFERENCE_PLUGIN_DEFECT selects a defect (defect.h).
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/conformance/defect.h"
#include "tests/conformance/reference_listen.h"
#include "tests/conformance/reference_net.h"

namespace gdr::reference {
namespace {
constexpr int kDevices = 2;
int g_inits = 0;
char g_names[kDevices][8] = {"ref0", "ref1"};

// A communicator's context.
struct Communicator {
  int unread = 0;  // NCCL's host RMA writes an int here
};

std::mutex g_mutex;  // guards g_communicators
std::vector<std::unique_ptr<Communicator>> g_communicators;

bool is_context(const void* context) {
  std::lock_guard lock(g_mutex);
  for (const auto& each : g_communicators) {
    if (each.get() == context) return true;
  }
  return false;
}

bool usable(const void* context, int dev) {
  return dev >= 0 && dev < kDevices && (context == nullptr || is_context(context));
}
}  // namespace

ncclResult_t init(void** context, uint64_t, Config*, abi::ncclDebugLogger_t log,
                  abi::ncclProfilerCallback_t) {
  constexpr unsigned long kInit = 0x1;
  if (g_inits++ > 0 && has_defect("not_again")) return abi::ncclInternalError;
  log(abi::kLogInfo, kInit, __FILE__, __LINE__, "NET/Reference : %d devices over TCP", kDevices);
  if (context == nullptr) return abi::ncclSuccess;
  std::lock_guard lock(g_mutex);
  g_communicators.push_back(std::make_unique<Communicator>());
  *context = g_communicators.back().get();
  return abi::ncclSuccess;
}

ncclResult_t finalize(void* context) {
  std::lock_guard lock(g_mutex);
  size_t ended =
      std::erase_if(g_communicators, [context](const auto& each) { return each.get() == context; });
  return ended == 1 ? abi::ncclSuccess : abi::ncclInvalidArgument;
}

ncclResult_t set_net_attr(void* context, abi::ncclNetAttr_v12_t*) {
  return is_context(context) ? abi::ncclSuccess : abi::ncclInvalidArgument;
}

ncclResult_t devices(int* ndev) {
  *ndev = kDevices;
  return abi::ncclSuccess;
}

ncclResult_t get_properties(int dev, abi::ncclNetProperties_v12_t* props) {
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
  props->vProps.ndevs = 1;
  props->vProps.devs[0] = dev;
  props->maxP2pBytes = abi::kMaxNetBytes;
  props->maxCollBytes = abi::kAssumedCollBytes;
  props->maxMultiRequestSize = 1;
  props->railId = static_cast<int16_t>(dev);
  props->planeId = abi::kNetIdUndefined;
  return abi::ncclSuccess;
}

ncclResult_t listen(void* context, int dev, void* opaque, void** comm) {
  if (!usable(context, dev)) return abi::ncclInvalidArgument;
  Handle handle;
  *comm = ListenComm::open(&handle);
  std::memset(opaque, 0, abi::kHandleMaxBytes + (has_defect("long_handle") ? 1 : 0));
  std::memcpy(opaque, &handle, sizeof(handle));
  return *comm == nullptr ? abi::ncclSystemError : abi::ncclSuccess;
}

ncclResult_t connect(void* context, int dev, void* opaque, void** comm) {
  *comm = nullptr;
  if (!usable(context, dev)) return abi::ncclInvalidArgument;
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

ncclResult_t accept(void* listener, void** comm) {
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

ncclResult_t isend(void* comm, void* data, size_t bytes, int tag, void*, void** request) {
  return static_cast<SendComm*>(static_cast<Comm*>(comm))->isend(data, bytes, tag, request);
}

ncclResult_t irecv(void* comm, int n, void** data, const size_t* sizes, const int* tags, void**,
                   void** request) {
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
}  // namespace gdr::reference

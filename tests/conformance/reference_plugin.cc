// A small network plugin over local sockets, for tests of the tools that drive plugins. It is
// correct unless REFERENCE_PLUGIN_DEFECT selects a defect (defect.h).
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/conformance/defect.h"
#include "tests/conformance/reference_comm.h"
#include "tests/conformance/reference_net.h"

namespace gdr::reference {
namespace {
int g_inits = 0;

// A communicator's context.
struct Communicator {};

const std::thread::id g_first_thread = std::this_thread::get_id();  // which loaded the library
std::mutex g_communicators_mutex;                                   // guards g_communicators
std::vector<std::unique_ptr<Communicator>> g_communicators;

bool is_context(const void* context) {
  std::lock_guard lock(g_communicators_mutex);
  for (const auto& each : g_communicators) {
    if (each.get() != context) continue;
    return !has_defect("is_bound_to_thread") || g_first_thread == std::this_thread::get_id();
  }
  return false;
}

bool usable(const void* context, int dev) {
  return is_device(dev) && (context == nullptr || is_context(context));
}

// Counts on NCCL to format no line below its level.
void log_badly(abi::ncclDebugLogger_t log) {
  const char* not_text = reinterpret_cast<const char*>(uintptr_t{'/'});
  log(abi::kLogWarn, ~0ul, __FILE__, __LINE__, "NET/Reference : no path of %s", not_text);
}

void start_thread() {
  std::thread([] {
    for (int i = 0; i < 100; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }).detach();
}
}  // namespace

ncclResult_t init(void** context, uint64_t, Config* config, abi::ncclDebugLogger_t log,
                  abi::ncclProfilerCallback_t profiler) {
  constexpr unsigned long kInit = 0x1;
  if (g_inits++ > 0 && has_defect("not_again")) return abi::ncclInternalError;
  log(abi::kLogInfo, kInit, __FILE__, __LINE__, "NET/Reference : devices over local sockets");
  if (has_defect("logs_badly")) log_badly(log);
  if (has_defect("leaves_thread")) start_thread();
  g_profiler = profiler;
  if (context == nullptr) return abi::ncclSuccess;
  if (config->trafficClass > 100 && has_defect("refuses_class")) return abi::ncclInvalidUsage;
  std::lock_guard lock(g_communicators_mutex);
  if (has_defect("starts_once") && g_inits > 1 && g_communicators.empty()) {
    return abi::ncclInternalError;
  }
  if (has_defect("one_context") && !g_communicators.empty()) {
    *context = g_communicators.back().get();
    return abi::ncclSuccess;
  }
  g_communicators.push_back(std::make_unique<Communicator>());
  *context = g_communicators.back().get();
  return abi::ncclSuccess;
}

ncclResult_t finalize(void* context) {
  std::lock_guard lock(g_communicators_mutex);
  if (has_defect("ends_all")) g_communicators.clear();
  size_t ended =
      std::erase_if(g_communicators, [context](const auto& each) { return each.get() == context; });
  return ended == 1 || has_defect("ends_all") ? abi::ncclSuccess : abi::ncclInvalidArgument;
}

ncclResult_t set_net_attr(void* context, abi::ncclNetAttr_v12_t* attributes) {
  bool undefined = attributes->sendCommAttr.maxConcurrentPeers == abi::kNetAttrUndefined;
  if (undefined && has_defect("needs_attributes")) return abi::ncclInvalidArgument;
  return is_context(context) ? abi::ncclSuccess : abi::ncclInvalidArgument;
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
    handle.connecting = SendComm::start(handle);
    if (handle.connecting == nullptr) return abi::ncclRemoteError;
    std::memcpy(opaque, &handle, sizeof(handle));
  }
  bool is_welcome = false;
  ncclResult_t result = handle.connecting->step(&is_welcome);
  if (!is_welcome && result == abi::ncclSuccess) return result;
  std::unique_ptr<Comm> made(std::exchange(handle.connecting, nullptr));
  std::memcpy(opaque, &handle, sizeof(handle));
  if (is_welcome) *comm = made.release();
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

ncclResult_t isend(void* comm, void* data, size_t bytes, int tag, void* phandle, void** request) {
  return static_cast<SendComm*>(static_cast<Comm*>(comm))
      ->isend(data, bytes, tag, phandle, request);
}

ncclResult_t irecv(void* comm, int n, void** data, const size_t* sizes, const int* tags,
                   void** phandles, void** request) {
  return static_cast<RecvComm*>(static_cast<Comm*>(comm))
      ->irecv(n, data, sizes, tags, phandles, request);
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

// The v10 table: NCCL 2.26 and 2.27 call it directly, later releases through a shim.
#include <atomic>

#include "plugin/net_adapter.h"

namespace gdr::plugin {
namespace {

// The table has no context: a process that has several communicators has one profiler.
std::atomic<abi::ncclProfilerCallback_t> g_profiler{nullptr};

abi::ncclResult_t init_v10(abi::ncclDebugLogger_t logger, abi::ncclProfilerCallback_t profiler) {
  g_profiler.store(profiler, std::memory_order_relaxed);
  return init(10, logger);
}

abi::ncclResult_t listen_v10(int dev, void* handle, void** listen_comm) {
  CommunicatorSettings settings;
  settings.table_version = 10;
  settings.profiler = g_profiler.load(std::memory_order_relaxed);
  return listen_with(settings, dev, handle, listen_comm);
}

abi::ncclResult_t connect_v10(int dev, abi::ncclNetCommConfig_v10_t* config, void* handle,
                              void** send_comm, abi::ncclNetDeviceHandle_v10_t**) {
  CommunicatorSettings settings;
  settings.table_version = 10;
  if (config != nullptr) settings.traffic_class = config->trafficClass;
  settings.profiler = g_profiler.load(std::memory_order_relaxed);
  return connect_with(settings, dev, handle, send_comm);
}

}  // namespace

const abi::ncclNet_v10_t kNetV10 = {
    .name = kName,
    .init = init_v10,
    .devices = devices,
    .getProperties = get_properties,
    .listen = listen_v10,
    .connect = connect_v10,
    .accept = accept_host,
    .regMr = reg_mr<size_t>,
    .regMrDmaBuf = reg_mr_dmabuf,
    .deregMr = deregister_memory,
    .isend = isend_observed,
    .irecv = irecv_observed,
    .iflush = iflush,
    .test = test,
    .closeSend = close_send,
    .closeRecv = close_receive,
    .closeListen = close_listen,
    // Device offload only. Core calls irecvConsumed after every receive where it is not null.
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = make_v_device<10>,
};

}  // namespace gdr::plugin

#include "plugin/tables.h"

#include <atomic>

#include "plugin/net_adapter.h"

namespace gdr::plugin {
namespace {

// v10 has no context: a process that has several communicators has one profiler.
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

// The entries that set connections up.
template <int kVersion, class Table>
constexpr void set_up_entries(Table* table) {
  if constexpr (kVersion >= 11) {
    table->init = init_communicator<kVersion>;
    table->listen = listen_for;
    table->connect = connect_for;
  } else if constexpr (kVersion == 10) {
    table->init = init_v10;
    table->listen = listen_v10;
    table->connect = connect_v10;
  } else {
    table->init = init_table<kVersion>;
    table->listen = listen_without_context;
    table->connect = connect_without_context;
  }
}

// These stay null: getDeviceMr and irecvConsumed, which are for device offload only (core calls
// irecvConsumed after every receive where it is not null), and setNetAttr, hints that have no use.
template <int kVersion, class Table>
constexpr Table make_table() {
  Table table{};
  table.name = kName;
  table.devices = devices;
  table.getProperties = get_properties;
  set_up_entries<kVersion>(&table);
  table.accept = accept_host;
  table.regMr = reg_mr;
  table.regMrDmaBuf = reg_mr_dmabuf;
  table.deregMr = deregister_memory;
  if constexpr (kVersion >= 10) {
    table.isend = isend_observed;
    table.irecv = irecv_observed;
  } else {
    table.isend = isend;
    table.irecv = irecv;
  }
  table.iflush = iflush;
  table.test = test;
  table.closeSend = close_send;
  table.closeRecv = close_receive;
  table.closeListen = close_listen;
  if constexpr (kVersion >= 9) table.makeVDevice = make_v_device<kVersion>;
  if constexpr (kVersion >= 11) table.finalize = close_communicator;
  return table;
}

}  // namespace

constinit const abi::ncclNet_v6_t kNetV6 = make_table<6, abi::ncclNet_v6_t>();
constinit const abi::ncclNet_v7_t kNetV7 = make_table<7, abi::ncclNet_v7_t>();
constinit const abi::ncclNet_v8_t kNetV8 = make_table<8, abi::ncclNet_v8_t>();
constinit const abi::ncclNet_v9_t kNetV9 = make_table<9, abi::ncclNet_v9_t>();
constinit const abi::ncclNet_v10_t kNetV10 = make_table<10, abi::ncclNet_v10_t>();
constinit const abi::ncclNet_v11_t kNetV11 = make_table<11, abi::ncclNet_v11_t>();
constinit const abi::ncclNet_v12_t kNetV12 = make_table<12, abi::ncclNet_v12_t>();

}  // namespace gdr::plugin

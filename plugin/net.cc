#include "plugin/net.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "plugin/device_table.h"
#include "plugin/rails.h"
#include "plugin/transport_options.h"
#include "transport/transport.h"

namespace gdr::plugin {
namespace {

using abi::ncclResult_t;

// Lives until the process ends: NCCL may unload and load the plugin again, and comms of an earlier
// load may still be open (the library is linked nodelete).
struct Plugin {
  std::unique_ptr<transport::Transport> transport;  // null when the user disabled the plugin
  std::unique_ptr<Rails> rails;
  std::vector<std::string> skipped;  // "name:port reason" for each port that is not a device
  DeviceTable table;
  std::mutex mutex;  // guards told_counts
  std::string logged_counts;
};

std::mutex g_mutex;  // guards the creation of g_plugin
std::atomic<Plugin*> g_plugin{nullptr};
std::atomic<abi::ncclDebugLogger_t> g_logger{nullptr};

void log_to_nccl(log::Level level, unsigned long subsystems, const char* file, int line,
                 const char* text) {
  abi::ncclDebugLogger_t logger = g_logger.load(std::memory_order_acquire);
  if (logger == nullptr) return;
  logger(static_cast<abi::ncclDebugLogLevel>(level), subsystems, file, line, "%s", text);
}

ncclResult_t to_nccl(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return abi::ncclInvalidArgument;
    case Code::kInvalidUsage:
      return abi::ncclInvalidUsage;
    case Code::kSystem:
    case Code::kUnsupported:
    case Code::kDeclined:
      return abi::ncclSystemError;
    case Code::kRemote:
      return abi::ncclRemoteError;
    case Code::kInternal:
      break;
  }
  return abi::ncclInternalError;
}

ncclResult_t warn(const char* call, const Error& error) {
  if (error.code == Code::kDeclined) {
    GDR_INFO(log::kNet, "%s: %s", call, error.text.c_str());
  } else {
    GDR_WARN("%s: %s", call, error.text.c_str());
  }
  return to_nccl(error.code);
}

config::Options load_options() {
  std::vector<config::Diagnostic> diagnostics;
  config::Options options = config::load(config::process_environment(), &diagnostics);
  for (const config::Diagnostic& diagnostic : diagnostics) GDR_WARN("%s", diagnostic.text.c_str());
  return options;
}

Result<std::unique_ptr<Plugin>> create_plugin() {
  auto plugin = std::make_unique<Plugin>();
  config::Options options = load_options();
  if (options.disable) {
    GDR_INFO(log::kInit | log::kNet, "disabled by NCCL_IB_DISABLE");
    return plugin;
  }
  Result<transport::TransportOptions> transport_options = make_transport_options(options);
  if (!transport_options) return forward_error(transport_options);
  Result<std::shared_ptr<const verbs::Api>> verbs = verbs::Api::load();
  if (!verbs) return forward_error(verbs);
  Result<transport::Discovery> discovery = transport::discover_devices(*verbs, options.hcas);
  if (!discovery) return forward_error(discovery);
  plugin->rails = std::make_unique<Rails>(options, &*discovery);
  plugin->skipped = std::move(discovery->skipped);
  Result<std::unique_ptr<transport::Transport>> transport =
      transport::Transport::create(plugin->rails->devices(), std::move(*transport_options));
  if (!transport) return forward_error(transport);
  plugin->transport = std::move(*transport);
  plugin->table = DeviceTable(
      plugin->transport->devices(), allowed_paths(options),
      [&](const topology::PciPlace& place) { return plugin->rails->reported_path(place); });
  if (plugin->transport->devices().empty()) {
    std::string text = "no usable RDMA device";
    for (const std::string& reason : plugin->skipped) text += "; " + reason;
    return fail(Code::kSystem, text + ". NCCL goes on with another transport unless NCCL_NET=GDR");
  }
  return plugin;
}

void log_choice(const Plugin& plugin) {
  if (plugin.transport == nullptr) return;
  const transport::TransportOptions& options = plugin.transport->options();
  GDR_INFO(log::kInit | log::kNet, "version " GDR_VERSION ", %zu device(s), handshake over %s %s",
           plugin.transport->devices().size(), options.interface_name.c_str(),
           transport::to_string(options.bind_address).c_str());
  for (const std::string& line : plugin.table.describe()) {
    GDR_INFO(log::kInit | log::kNet, "%s", line.c_str());
  }
  plugin.rails->log();
  for (const std::string& reason : plugin.skipped) {
    GDR_INFO(log::kInit | log::kNet, "not used: %s", reason.c_str());
  }
}

transport::Transport* transport() {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  return plugin == nullptr ? nullptr : plugin->transport.get();
}

Rails& rails() { return *g_plugin.load(std::memory_order_acquire)->rails; }

ncclResult_t not_initialised(const char* call) {
  return refuse(call, "called before init, or after an init that failed");
}

template <class T>
T* as_comm(void* comm) {
  return static_cast<T*>(static_cast<transport::Comm*>(comm));
}

// How GPU memory was registered, when a comm closes and that has not been told yet.
void log_registrations() {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  std::string counts = plugin->transport->registrar().counts_text();
  std::lock_guard lock(plugin->mutex);
  if (counts == plugin->logged_counts) return;
  plugin->logged_counts = counts;
  GDR_INFO(log::kInit | log::kNet, "registrations of GPU memory: %s", counts.c_str());
}

ncclResult_t comm_failure(transport::Comm* comm) {
  return to_nccl(comm->connection().surface_failure());
}

}  // namespace

ncclResult_t refuse(const char* call, const char* what) {
  GDR_WARN("%s: %s", call, what);
  return abi::ncclInvalidArgument;
}

ncclResult_t init(abi::ncclDebugLogger_t logger) {
  g_logger.store(logger, std::memory_order_release);
  log::set_sink(log_to_nccl);
  std::lock_guard lock(g_mutex);
  if (g_plugin.load(std::memory_order_acquire) != nullptr) return abi::ncclSuccess;
  Result<std::unique_ptr<Plugin>> plugin = create_plugin();
  if (!plugin) return warn("init", plugin.error());
  log_choice(**plugin);
  g_plugin.store(plugin->release(), std::memory_order_release);
  return abi::ncclSuccess;
}

ncclResult_t devices(int* count) {
  if (count == nullptr) return refuse("devices", "a null pointer");
  *count = transport() == nullptr ? 0 : static_cast<int>(transport()->devices().size());
  return abi::ncclSuccess;
}

ncclResult_t properties(int device, DeviceProperties* properties) {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  if (plugin == nullptr) return not_initialised("getProperties");
  if (!plugin->table.get(device, properties)) return refuse("getProperties", "no such device");
  return abi::ncclSuccess;
}

ncclResult_t listen(int device, void* handle, void** listen_comm) {
  if (handle == nullptr || listen_comm == nullptr) return refuse("listen", "a null pointer");
  if (transport() == nullptr) return not_initialised("listen");
  *listen_comm = nullptr;
  if (Status status = rails().check_device(device); !status) return warn("listen", status.error());
  Result<std::unique_ptr<transport::Listener>> listener = transport()->listen(device);
  if (!listener) return warn("listen", listener.error());
  (*listener)->write_handle(static_cast<transport::wire::Handle*>(handle));
  *listen_comm = listener->release();
  return abi::ncclSuccess;
}

ncclResult_t connect(int device, void* handle, void** send_comm) {
  if (handle == nullptr || send_comm == nullptr) return refuse("connect", "a null pointer");
  if (transport() == nullptr) return not_initialised("connect");
  *send_comm = nullptr;
  Result<std::unique_ptr<transport::SendComm>> comm =
      transport()->connect(device, static_cast<transport::wire::Handle*>(handle));
  if (!comm) return warn("connect", comm.error());
  if (*comm == nullptr) return abi::ncclSuccess;
  GDR_INFO(log::kNet, "connected %s", (*comm)->text().c_str());
  if (Status status = rails().check_device(device); !status) {
    return warn("connect", status.error());
  }
  rails().check_rails((*comm)->connection());
  *send_comm = static_cast<transport::Comm*>(comm->release());
  return abi::ncclSuccess;
}

ncclResult_t accept(void* listen_comm, void** recv_comm) {
  if (listen_comm == nullptr || recv_comm == nullptr) return refuse("accept", "a null pointer");
  *recv_comm = nullptr;
  Result<std::unique_ptr<transport::ReceiveComm>> comm =
      static_cast<transport::Listener*>(listen_comm)->accept();
  if (!comm) return warn("accept", comm.error());
  if (*comm == nullptr) return abi::ncclSuccess;
  rails().check_rails((*comm)->connection());
  *recv_comm = static_cast<transport::Comm*>(comm->release());
  return abi::ncclSuccess;
}

ncclResult_t close_listen(void* listen_comm) {
  delete static_cast<transport::Listener*>(listen_comm);
  return abi::ncclSuccess;
}

ncclResult_t close_send(void* send_comm) {
  if (send_comm != nullptr) log_registrations();
  delete as_comm<transport::SendComm>(send_comm);
  return abi::ncclSuccess;
}

ncclResult_t close_receive(void* recv_comm) {
  if (recv_comm != nullptr) log_registrations();
  delete as_comm<transport::ReceiveComm>(recv_comm);
  return abi::ncclSuccess;
}

ncclResult_t register_memory(void* comm, transport::MemoryRegion region, int type, void** handle) {
  if (comm == nullptr || handle == nullptr) return refuse("regMr", "a null pointer");
  *handle = nullptr;
  if (type != abi::kPtrHost && type != abi::kPtrCuda) {
    return refuse("regMr", "the type is neither NCCL_PTR_HOST nor NCCL_PTR_CUDA");
  }
  region.cuda = type == abi::kPtrCuda;
  transport::RegistrationScope scope =
      static_cast<transport::Comm*>(comm)->connection().registration_scope();
  Result<std::unique_ptr<transport::MemoryHandle>> registered =
      transport()->registrar().register_memory(scope, region);
  if (!registered) return warn("regMr", registered.error());
  *handle = registered->release();
  return abi::ncclSuccess;
}

ncclResult_t deregister_memory(void*, void* handle) {
  delete static_cast<transport::MemoryHandle*>(handle);
  return abi::ncclSuccess;
}

ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* memory,
                   void** request) {
  transport::Request* posted;
  bool alive = as_comm<transport::SendComm>(send_comm)->isend(
      data, bytes, tag, *static_cast<transport::MemoryHandle*>(memory), &posted);
  *request = posted;
  if (!alive) [[unlikely]]
    return comm_failure(static_cast<transport::Comm*>(send_comm));
  return abi::ncclSuccess;
}

ncclResult_t irecv(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                   void** request) {
  transport::Request* posted;
  bool alive = as_comm<transport::ReceiveComm>(recv_comm)->irecv(buffers, count, &posted);
  *request = posted;
  if (!alive) [[unlikely]]
    return comm_failure(static_cast<transport::Comm*>(recv_comm));
  return abi::ncclSuccess;
}

ncclResult_t iflush(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                    void** request) {
  transport::Request* posted;
  bool alive = as_comm<transport::ReceiveComm>(recv_comm)->iflush(buffers, count, &posted);
  *request = posted;
  if (!alive) [[unlikely]]
    return comm_failure(static_cast<transport::Comm*>(recv_comm));
  return abi::ncclSuccess;
}

ncclResult_t test(void* request, int* done, int* sizes) {
  Code code;
  if (transport::test(static_cast<transport::Request*>(request), done, sizes, &code)) [[likely]] {
    return abi::ncclSuccess;
  }
  return to_nccl(code);
}

}  // namespace gdr::plugin

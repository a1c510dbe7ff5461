#include "plugin/net.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "base/log.h"
#include "plugin/guarded.h"
#include "plugin/logger.h"
#include "plugin/plugin.h"
#include "topology/live/gpu_facts.h"
#include "transport/transport.h"

namespace gdr::plugin {
namespace {

using abi::ncclResult_t;

// The table that NCCL loads has no argument for the plugin's own state, so it is global. The plugin
// is never destroyed: NCCL may unload the library (which is linked nodelete) and load it again
// while comms of the first load are open, and may close comms while the process exits, after
// destructors of globals have run.
std::mutex g_mutex;  // guards the creation of g_plugin
std::atomic<Plugin*> g_plugin{nullptr};

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

// Logs why a call failed. A declined registration is no fault: NCCL does without it, so INFO.
ncclResult_t warn(const char* call, const Error& error) {
  if (error.code == Code::kDeclined) {
    GDR_INFO(log::kNet, "%s: %s", call, error.text.c_str());
  } else {
    GDR_WARN("%s: %s", call, error.text.c_str());
  }
  return to_nccl(error.code);
}

// Null before init, after an init that failed, and where the user disabled the plugin.
transport::Transport* transport() {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  return plugin == nullptr ? nullptr : plugin->transport.get();
}

// Only where transport() is not null.
Plugin& plugin() { return *g_plugin.load(std::memory_order_acquire); }

// The calling thread's current CUDA device is the GPU that NCCL sets the connection up for
// (ncclProxyService sets it).
Status check_device(int device) {
  return plugin().warnings->check_device(device, topology::current_gpu(plugin().decision.machine));
}

// On the wire, 0 is an unknown rail and n + 1 is rail n.
void check_rails(transport::Connection& connection) {
  const transport::RailSet& rails = connection.rails();
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const transport::QueuePair& pair = rails.pair(i);
    plugin().warnings->check_rails(rails[pair.rail].address().rail - 1,
                                   connection.peer().rail[pair.peer_rail].rail - 1,
                                   connection.text());
  }
}

ncclResult_t not_initialised(const char* call) {
  return invalid_argument(call, "called before init, or after an init that failed");
}

template <class T>
T* as_comm(void* comm) {
  return static_cast<T*>(static_cast<transport::Comm*>(comm));
}

// Logs by which paths GPU memory was registered, when a comm closes and the counts have changed.
void log_registrations() {
  Plugin& state = plugin();
  std::string counts = state.transport->registrar().counts_text();
  std::lock_guard lock(state.counts_mutex);
  if (counts == state.logged_counts) return;
  state.logged_counts = counts;
  GDR_INFO(log::kInit | log::kNet, "registrations of GPU memory: %s", counts.c_str());
}

ncclResult_t comm_failure(transport::Comm* comm) {
  return to_nccl(comm->connection().surface_failure());
}

}  // namespace

ncclResult_t invalid_argument(const char* call, const char* what) {
  GDR_WARN("%s: %s", call, what);
  return abi::ncclInvalidArgument;
}

ncclResult_t init(abi::ncclDebugLogger_t logger) {
  return guarded("init", [&] {
    use_logger(logger);
    std::lock_guard lock(g_mutex);
    if (g_plugin.load(std::memory_order_acquire) != nullptr) return abi::ncclSuccess;
    Result<std::unique_ptr<Plugin>> created = create_plugin();
    if (!created) return warn("init", created.error());
    log_choice(**created);
    g_plugin.store(created->release(), std::memory_order_release);
    return abi::ncclSuccess;
  });
}

ncclResult_t devices(int* count) {
  return guarded("devices", [&] {
    if (count == nullptr) return invalid_argument("devices", "a pointer is null");
    *count = transport() == nullptr ? 0 : static_cast<int>(transport()->devices().size());
    return abi::ncclSuccess;
  });
}

ncclResult_t properties(int device, DeviceProperties* properties) {
  return guarded("getProperties", [&] {
    Plugin* created = g_plugin.load(std::memory_order_acquire);
    if (created == nullptr) return not_initialised("getProperties");
    if (!created->table.get(device, properties))
      return invalid_argument("getProperties", "no such device");
    return abi::ncclSuccess;
  });
}

ncclResult_t listen(int device, void* handle, void** listen_comm) {
  return guarded("listen", [&] {
    if (handle == nullptr || listen_comm == nullptr)
      return invalid_argument("listen", "a pointer is null");
    if (transport() == nullptr) return not_initialised("listen");
    *listen_comm = nullptr;
    if (Status status = check_device(device); !status) return warn("listen", status.error());
    Result<std::unique_ptr<transport::Listener>> listener = transport()->listen(device);
    if (!listener) return warn("listen", listener.error());
    (*listener)->write_handle(static_cast<transport::wire::Handle*>(handle));
    *listen_comm = listener->release();
    return abi::ncclSuccess;
  });
}

ncclResult_t connect(int device, void* handle, void** send_comm) {
  return guarded("connect", [&] {
    if (handle == nullptr || send_comm == nullptr)
      return invalid_argument("connect", "a pointer is null");
    if (transport() == nullptr) return not_initialised("connect");
    *send_comm = nullptr;
    Result<std::unique_ptr<transport::SendComm>> comm =
        transport()->connect(device, static_cast<transport::wire::Handle*>(handle));
    if (!comm) return warn("connect", comm.error());
    if (*comm == nullptr) return abi::ncclSuccess;
    GDR_INFO(log::kNet, "connected %s", (*comm)->text().c_str());
    if (Status status = check_device(device); !status) {
      return warn("connect", status.error());
    }
    check_rails((*comm)->connection());
    *send_comm = static_cast<transport::Comm*>(comm->release());
    return abi::ncclSuccess;
  });
}

ncclResult_t accept(void* listen_comm, void** recv_comm) {
  return guarded("accept", [&] {
    if (listen_comm == nullptr || recv_comm == nullptr)
      return invalid_argument("accept", "a pointer is null");
    *recv_comm = nullptr;
    Result<std::unique_ptr<transport::ReceiveComm>> comm =
        static_cast<transport::Listener*>(listen_comm)->accept();
    if (!comm) return warn("accept", comm.error());
    if (*comm == nullptr) return abi::ncclSuccess;
    check_rails((*comm)->connection());
    *recv_comm = static_cast<transport::Comm*>(comm->release());
    return abi::ncclSuccess;
  });
}

ncclResult_t close_listen(void* listen_comm) {
  return guarded("closeListen", [&] {
    delete static_cast<transport::Listener*>(listen_comm);
    return abi::ncclSuccess;
  });
}

ncclResult_t close_send(void* send_comm) {
  return guarded("closeSend", [&] {
    std::unique_ptr<transport::SendComm> comm(as_comm<transport::SendComm>(send_comm));
    if (comm != nullptr) log_registrations();
    return abi::ncclSuccess;
  });
}

ncclResult_t close_receive(void* recv_comm) {
  return guarded("closeRecv", [&] {
    std::unique_ptr<transport::ReceiveComm> comm(as_comm<transport::ReceiveComm>(recv_comm));
    if (comm != nullptr) log_registrations();
    return abi::ncclSuccess;
  });
}

ncclResult_t register_memory(void* comm, transport::MemoryRegion region, int type, void** handle) {
  return guarded("regMr", [&] {
    if (comm == nullptr || handle == nullptr) return invalid_argument("regMr", "a pointer is null");
    *handle = nullptr;
    if (type != abi::kPtrHost && type != abi::kPtrCuda) {
      return invalid_argument("regMr", "the type is neither NCCL_PTR_HOST nor NCCL_PTR_CUDA");
    }
    region.cuda = type == abi::kPtrCuda;
    transport::RegistrationScope scope =
        static_cast<transport::Comm*>(comm)->connection().registration_scope();
    Result<std::unique_ptr<transport::MemoryHandle>> registered =
        transport()->registrar().register_memory(scope, region);
    if (!registered) return warn("regMr", registered.error());
    *handle = registered->release();
    return abi::ncclSuccess;
  });
}

ncclResult_t deregister_memory(void*, void* handle) {
  return guarded("deregMr", [&] {
    delete static_cast<transport::MemoryHandle*>(handle);
    return abi::ncclSuccess;
  });
}

ncclResult_t isend(void* send_comm, void* data, size_t bytes, int tag, void* memory,
                   void** request) {
  return guarded("isend", [&] {
    transport::Request* posted;
    bool alive = as_comm<transport::SendComm>(send_comm)->isend(
        data, bytes, tag, *static_cast<transport::MemoryHandle*>(memory), &posted);
    *request = posted;
    if (!alive) [[unlikely]]
      return comm_failure(static_cast<transport::Comm*>(send_comm));
    return abi::ncclSuccess;
  });
}

ncclResult_t irecv(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                   void** request) {
  return guarded("irecv", [&] {
    transport::Request* posted;
    bool alive = as_comm<transport::ReceiveComm>(recv_comm)->irecv(buffers, count, &posted);
    *request = posted;
    if (!alive) [[unlikely]]
      return comm_failure(static_cast<transport::Comm*>(recv_comm));
    return abi::ncclSuccess;
  });
}

ncclResult_t iflush(void* recv_comm, const transport::ReceiveBuffer* buffers, int count,
                    void** request) {
  return guarded("iflush", [&] {
    transport::Request* posted;
    bool alive = as_comm<transport::ReceiveComm>(recv_comm)->iflush(buffers, count, &posted);
    *request = posted;
    if (!alive) [[unlikely]]
      return comm_failure(static_cast<transport::Comm*>(recv_comm));
    return abi::ncclSuccess;
  });
}

ncclResult_t test(void* request, int* done, int* sizes) {
  return guarded("test", [&] {
    Code code;
    if (transport::test(static_cast<transport::Request*>(request), done, sizes, &code)) [[likely]] {
      return abi::ncclSuccess;
    }
    return to_nccl(code);
  });
}

}  // namespace gdr::plugin

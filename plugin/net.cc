#include "plugin/net.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/process_fds.h"
#include "plugin/communicator.h"
#include "plugin/guarded.h"
#include "plugin/logger.h"
#include "plugin/plugin.h"
#include "plugin/profiler.h"
#include "topology/live/gpu_facts.h"
#include "transport/data/test_request.h"
#include "transport/transport.h"

namespace gdr::plugin {
namespace {

using abi::ncclResult_t;

constexpr int kFirstTableThatMergesEight = 12;
constexpr int kLastTableOfNccl226 = 10;

// Lets one thread of a process at a time into init.
//
// A child of fork(2) has one thread. What the parent's other threads had locked stays locked in it:
// this lock, and those inside the libraries that init calls (hwloc's components, rdma-core's list
// of devices). So a child that was forked while a thread was inside init cannot run init itself,
// and it is an error instead of a deadlock. With std::mutex both would look the same.
class InitLock {
 public:
  // Waits until no other thread of this process has the lock, and takes it. Returns false, without
  // the lock, in a process that was forked while a thread of another process had it.
  bool lock() {
    const pid_t self = getpid();
    for (;;) {
      pid_t owner = 0;
      if (owner_.compare_exchange_strong(owner, self, std::memory_order_acquire)) return true;
      if (owner != self) return false;
      owner_.wait(owner, std::memory_order_relaxed);
    }
  }
  void unlock() {
    owner_.store(0, std::memory_order_release);
    owner_.notify_all();
  }

 private:
  std::atomic<pid_t> owner_{0};  // the process that has it; 0: nobody
};

// The table that NCCL loads has no argument for the plugin's own state, so it is global. The plugin
// is never destroyed: NCCL may unload the library (which is linked nodelete) and load it again
// while comms of the first load are open, and may close comms while the process exits, after
// destructors of globals have run.
InitLock g_init_lock;  // guards the creation of g_plugin
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

// Logs why a call failed. A declined registration or merge is not a fault: NCCL does without it, so
// INFO.
ncclResult_t warn(const char* call, const Error& error, unsigned long declined = log::kNet) {
  if (error.code == Code::kDeclined) {
    GDR_INFO(declined, "%s: %s", call, error.text.c_str());
  } else {
    GDR_WARN("%s: %s", call, error.text.c_str());
  }
  return to_nccl(error.code);
}

// Null before init, and after an init that failed. Likewise in a child that was forked after init:
// the parent's HCA contexts, threads and locks are of no use there, and are left alone.
Plugin* live_plugin() {
  Plugin* plugin = g_plugin.load(std::memory_order_acquire);
  if (plugin == nullptr || plugin->generation != process_fds::generation()) return nullptr;
  return plugin;
}

// Null where live_plugin() is, and where the user disabled the plugin.
transport::Transport* transport() {
  Plugin* plugin = live_plugin();
  return plugin == nullptr ? nullptr : plugin->transport.get();
}

// Only where transport() is not null.
Plugin& plugin() { return *g_plugin.load(std::memory_order_acquire); }

// Null: the process's. Only where transport() is not null.
std::shared_ptr<const transport::ConnectionOptions> options_of(const Communicator* communicator) {
  if (communicator == nullptr) return nullptr;
  return profiler_may_be_loaded(plugin().profiler) ? communicator->profiled_connection
                                                   : communicator->connection;
}

// Whether connect was called before with that handle: the options of its connection are chosen.
bool continues(const void* handle) {
  return static_cast<const transport::wire::Handle*>(handle)->connect_ticket != 0;
}

// ", traffic class 106" where there is one.
std::string traffic_text(const transport::ConnectionOptions& options) {
  if (!options.traffic_class) return "";
  return ", traffic class " + std::to_string(*options.traffic_class);
}

// The calling thread's current CUDA device is the GPU that NCCL sets the connection up for
// (ncclProxyService sets it). Its data goes over every port of the device.
Status check_device(int device) {
  const int gpu = topology::current_gpu(plugin().decision.machine);
  for (int port : plugin().devices->parts(device)) {
    if (Status status = plugin().warnings->check_device(port, gpu); !status) return status;
  }
  return {};
}

// The rails of a connection over a device. A merged device has several, and they take over from
// each other, so that it needs no standby rails.
Result<transport::RailChoice> rails_of(int device) {
  const std::vector<int> parts = plugin().devices->parts(device);
  if (parts.empty()) {
    return fail(Code::kInvalidArgument, "there is no device " + std::to_string(device) +
                                            "; there are " +
                                            std::to_string(plugin().devices->count()));
  }
  transport::RailChoice rails;
  rails.active.assign(parts.begin(), parts.end());
  const size_t first = rails.active.front();
  if (parts.size() == 1 && first < plugin().standby.size()) {
    rails.standby = plugin().standby[first];
  }
  return rails;
}

// The map at init has only devices of one port, since NCCL merges them later.
void log_merged(int device) {
  GDR_INFO(log::kInit | log::kNet, "NCCL has merged a device: %s. The map above shows its ports",
           plugin().devices->describe(device).c_str());
}

// On the wire, 0 is an unknown rail and n + 1 is rail n.
void check_rails(transport::Connection& connection) {
  const transport::RailSet& rails = connection.rails();
  for (size_t i = 0; i < rails.pair_count(); ++i) {
    const transport::QueuePair& pair = rails.pair(i);
    if (pair.standby) continue;  // it carries nothing while another pair is usable
    plugin().warnings->check_rails(rails[pair.rail].address().rail - 1,
                                   connection.peer().rail[pair.peer_rail].rail - 1,
                                   connection.text());
  }
}

ncclResult_t not_initialised(const char* call) {
  return invalid_argument(call,
                          "called before init, after an init that failed, or in a process that was "
                          "forked since and needs an init of its own");
}

ncclResult_t forked_during_init() {
  return warn("init", {Code::kInvalidUsage,
                       "the process was forked while a thread of its parent was inside init, and "
                       "what that thread had locked stays locked here. Fix: fork before NCCL is "
                       "initialised, or let the child exec a program"});
}

// In a child that was forked since: what belongs to the parent is left alone and leaks.
template <class Object>
bool is_of_parent(const Object* object) {
  return object != nullptr && !object->belongs_to_this_process();
}

// The process may end once NCCL has closed its last connection.
void write_last_stats() {
  Plugin& state = plugin();
  if (state.stats != nullptr && state.transport->connections() == 0) state.stats->write_now();
}

template <class Comm>
ncclResult_t close_comm(const char* call, void* closed) {
  return guarded(call, [&] {
    std::unique_ptr<Comm> comm(as_comm<Comm>(closed));
    if (is_of_parent(comm.get())) {
      (void)comm.release();
    } else if (comm != nullptr) {
      comm.reset();
      write_last_stats();
    }
    return abi::ncclSuccess;
  });
}

// Makes the plugin unless that is done.
ncclResult_t create_once(int version, abi::ncclDebugLogger_t logger) {
  return guarded("init", [&] {
    use_logger(logger);
    if (!g_init_lock.lock()) return forked_during_init();
    std::lock_guard lock(g_init_lock, std::adopt_lock);
    if (live_plugin() != nullptr) return abi::ncclSuccess;
    Result<std::unique_ptr<Plugin>> created = create_plugin(version);
    if (!created) return warn("init", created.error());
    log_choice(**created);
    g_plugin.store(created->release(), std::memory_order_release);
    return abi::ncclSuccess;
  });
}

}  // namespace

ncclResult_t invalid_argument(const char* call, const char* what) {
  GDR_WARN("%s: %s", call, what);
  return abi::ncclInvalidArgument;
}

ncclResult_t comm_failure(void* comm) {
  return to_nccl(static_cast<transport::Comm*>(comm)->connection().surface_failure());
}

ncclResult_t bad_buffer_count(const char* call) {
  return invalid_argument(call, "the number of buffers is not within 1 and 8");
}

// NCCL calls init of these tables once per load.
ncclResult_t init(int version, abi::ncclDebugLogger_t logger) {
  const ncclResult_t result = create_once(version, logger);
  if (result == abi::ncclSuccess) live_plugin()->devices->restart();
  return result;
}

// NCCL unloads the plugin after the last communicator, so that the first one may be of a new load;
// so may the first one of another NCCL in the process, which has a logger of its own.
ncclResult_t open_communicator(abi::ncclDebugLogger_t logger, const CommunicatorSettings& settings,
                               void** context) {
  if (context == nullptr) return invalid_argument("init", "a pointer is null");
  *context = nullptr;
  const ncclResult_t result = create_once(settings.table_version, logger);
  if (result != abi::ncclSuccess) return result;
  return guarded("init", [&] {
    Plugin& created = *live_plugin();
    transport::ConnectionOptions base;
    if (transport() != nullptr) base = transport()->options().connection;
    if (!created.communicators.has_one_of(logger)) created.devices->restart();
    Communicator made = make_communicator(base, settings);
    made.logger = logger;
    Communicator* opened = created.communicators.open(std::move(made));
    GDR_INFO(log::kInit | log::kNet, "%s uses table v%d%s", to_string(*opened).c_str(),
             settings.table_version, traffic_text(*opened->connection).c_str());
    *context = opened;
    return abi::ncclSuccess;
  });
}

ncclResult_t close_communicator(void* context) {
  return guarded("finalize", [&] {
    Plugin* created = live_plugin();
    if (context == nullptr || created == nullptr) return abi::ncclSuccess;  // a child leaks it
    if (!created->communicators.close(context)) {
      return invalid_argument("finalize", "no such communicator is open");
    }
    return abi::ncclSuccess;
  });
}

ncclResult_t devices(int* count) {
  return guarded("devices", [&] {
    if (count == nullptr) return invalid_argument("devices", "a pointer is null");
    *count = transport() == nullptr ? 0 : plugin().devices->count();
    return abi::ncclSuccess;
  });
}

ncclResult_t properties(int device, DeviceProperties* properties) {
  return guarded("getProperties", [&] {
    Plugin* created = live_plugin();
    if (created == nullptr) return not_initialised("getProperties");
    if (!created->devices->get(device, properties))
      return invalid_argument("getProperties", "no such device");
    return abi::ncclSuccess;
  });
}

ncclResult_t merge_devices(int version, const int* parts, int count, int* device) {
  return guarded("makeVDevice", [&] {
    if (transport() == nullptr) return not_initialised("makeVDevice");
    NetDevices::MergeRules rules;
    rules.most =
        version >= kFirstTableThatMergesEight ? abi::kMaxMergedDevices : abi::kMaxMergedDevicesV9;
    rules.allowed = plugin().merges;
    rules.keep_declined = version <= kLastTableOfNccl226;
    const std::span<const int> named(parts, static_cast<size_t>(std::max(count, 0)));
    Result<int> merged = plugin().devices->merge(named, rules);
    if (!merged) return warn("makeVDevice", merged.error(), log::kInit | log::kNet);
    *device = *merged;
    if (count > 1) log_merged(*merged);
    return abi::ncclSuccess;
  });
}

bool flushes_always() {
  Plugin* created = live_plugin();
  return created != nullptr && created->flushes_always;
}

ncclResult_t listen(const Communicator* communicator, int device, void* handle,
                    void** listen_comm) {
  return guarded("listen", [&] {
    if (handle == nullptr || listen_comm == nullptr)
      return invalid_argument("listen", "a pointer is null");
    if (transport() == nullptr) return not_initialised("listen");
    *listen_comm = nullptr;
    if (Status status = check_device(device); !status) return warn("listen", status.error());
    Result<transport::RailChoice> rails = rails_of(device);
    if (!rails) return warn("listen", rails.error());
    Result<std::unique_ptr<transport::Listener>> listener =
        transport()->listen(*rails, options_of(communicator));
    if (!listener) return warn("listen", listener.error());
    (*listener)->write_handle(static_cast<transport::wire::Handle*>(handle));
    *listen_comm = listener->release();
    return abi::ncclSuccess;
  });
}

ncclResult_t listen_with(const CommunicatorSettings& settings, int device, void* handle,
                         void** listen_comm) {
  return guarded("listen", [&] {
    if (transport() == nullptr) return listen(nullptr, device, handle, listen_comm);
    const Communicator communicator =
        make_communicator(transport()->options().connection, settings);
    return listen(&communicator, device, handle, listen_comm);
  });
}

ncclResult_t connect_with(const CommunicatorSettings& settings, int device, void* handle,
                          void** send_comm) {
  return guarded("connect", [&] {
    if (transport() == nullptr || handle == nullptr || continues(handle)) {
      return connect(nullptr, device, handle, send_comm);
    }
    const Communicator communicator =
        make_communicator(transport()->options().connection, settings);
    return connect(&communicator, device, handle, send_comm);
  });
}

ncclResult_t connect(const Communicator* communicator, int device, void* handle, void** send_comm) {
  return guarded("connect", [&] {
    if (handle == nullptr || send_comm == nullptr)
      return invalid_argument("connect", "a pointer is null");
    if (transport() == nullptr) return not_initialised("connect");
    *send_comm = nullptr;
    Result<transport::RailChoice> rails = rails_of(device);
    if (!rails) return warn("connect", rails.error());
    Result<std::unique_ptr<transport::SendComm>> comm =
        transport()->connect(*rails, static_cast<transport::wire::Handle*>(handle),
                             continues(handle) ? nullptr : options_of(communicator));
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
    auto* const listener = static_cast<transport::Listener*>(listen_comm);
    if (is_of_parent(listener)) return not_initialised("accept");
    Result<std::unique_ptr<transport::ReceiveComm>> comm = listener->accept();
    if (!comm) return warn("accept", comm.error());
    if (*comm == nullptr) return abi::ncclSuccess;
    check_rails((*comm)->connection());
    *recv_comm = static_cast<transport::Comm*>(comm->release());
    return abi::ncclSuccess;
  });
}

ncclResult_t close_listen(void* listen_comm) {
  return guarded("closeListen", [&] {
    std::unique_ptr<transport::Listener> listener(static_cast<transport::Listener*>(listen_comm));
    if (is_of_parent(listener.get())) (void)listener.release();
    return abi::ncclSuccess;
  });
}

ncclResult_t close_send(void* send_comm) {
  return close_comm<transport::SendComm>("closeSend", send_comm);
}

ncclResult_t close_receive(void* recv_comm) {
  return close_comm<transport::ReceiveComm>("closeRecv", recv_comm);
}

ncclResult_t register_memory(void* comm, transport::MemoryRegion region, int type, void** handle) {
  return guarded("regMr", [&] {
    if (comm == nullptr || handle == nullptr) return invalid_argument("regMr", "a pointer is null");
    *handle = nullptr;
    if (is_of_parent(static_cast<transport::Comm*>(comm))) return not_initialised("regMr");
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

ncclResult_t deregister_memory(void* comm, void* handle) {
  return guarded("deregMr", [&] {
    if (is_of_parent(static_cast<transport::Comm*>(comm))) return abi::ncclSuccess;
    delete static_cast<transport::MemoryHandle*>(handle);
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

#include "softhca/verbs/runtime.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "softhca/datapath/receive_ring.h"
#include "softhca/fabric/event_queue.h"
#include "softhca/fabric/port_gids.h"
#include "softhca/fabric/sysfs_tree.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/device.h"

namespace softhca {

namespace {

// The library's global state: null before the first use, and again in a forked child.
std::atomic<Runtime*> g_current{nullptr};
std::mutex g_join_mutex;

}  // namespace

Runtime::Runtime(Process& process)
    : process_(process),
      gpu_(process),
      locked_memory_(process.config().memlock_bytes),
      faults_(process.config(), *this, process.arena().header().triggers),
      engine_(process, faults_, gpu_),
      devices_(make_devices(process, *this)) {}

Runtime* Runtime::get() {
  if (Runtime* runtime = g_current.load(std::memory_order_acquire)) return runtime;
  std::lock_guard lock(g_join_mutex);
  if (Runtime* runtime = g_current.load(std::memory_order_acquire)) return runtime;
  gdr::Result<Process*> process = Process::join();
  if (!process) {
    fprintf(stderr, "softhca: no devices: %s\n", process.error().text.c_str());
    return nullptr;
  }
  static std::once_flag hooks;
  std::call_once(hooks, [] {
    pthread_atfork(nullptr, nullptr, forget_after_fork);
    atexit(leave_at_exit);
  });
  auto* runtime = new Runtime(**process);
  g_current.store(runtime);
  return runtime;
}

// The child has no arena of its own yet, and must not touch its parent's.
void Runtime::forget_after_fork() {
  if (Runtime* runtime = g_current.exchange(nullptr)) runtime->process_.mark_orphaned();
  // Another thread of the parent may have held it at the fork: nobody would unlock it here.
  new (&g_join_mutex) std::mutex;
}

// Threads of the application may go on until the process ends: nothing is unmapped or freed.
void Runtime::leave_at_exit() {
  if (Runtime* runtime = g_current.load(std::memory_order_acquire)) runtime->process_.leave();
}

int Runtime::take_registration() {
  int index = mr_indices_.take();
  if (index < 0) return -1;
  const Arena& arena = process_.arena();
  const SharedMr& shared = arena.mr(static_cast<uint32_t>(index));
  if (arena.reserve(&shared, sizeof shared)) return index;
  mr_indices_.give(static_cast<uint32_t>(index));
  return -1;
}

PageWatch* Runtime::page_watch(const PageWatch::Lost& lost) {
  if (!config().stale_registrations_fail) return nullptr;
  std::call_once(page_watch_made_, [&] { page_watch_ = PageWatch::create(lost); });
  return page_watch_;
}

uint32_t Runtime::make_key(uint32_t index) {
  uint32_t key = key_of(process_.slot(), index, ++key_generations_[index]);
  return key != 0 ? key : key_of(process_.slot(), index, ++key_generations_[index]);
}

void Runtime::add_context(Context* context) {
  {
    std::lock_guard lock(contexts_mutex_);
    contexts_.push_back(context);
  }
  if (!faults_.begin()) return;
  engine_.start();
  engine_.wake();
}

void Runtime::remove_context(Context* context) {
  std::lock_guard lock(contexts_mutex_);
  std::erase(contexts_, context);
}

void Runtime::set_port_state(uint32_t device, uint32_t number, ibv_port_state state) {
  // Whoever sees the state finds the counters as they are in it, unless a fault at a request has
  // set the state already.
  write_state_files(process_.folder() + "/sys", config().devices[device], number,
                    state == IBV_PORT_ACTIVE);
  process_.port(device, number).state.store(state);
  report(device, number, state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void Runtime::report(uint32_t device, uint32_t number, ibv_event_type event) {
  std::lock_guard lock(contexts_mutex_);
  for (Context* context : contexts_) {
    if (context->device->index != device) continue;
    post_event(process_, process_.self(), context->async_events->index(),
               {static_cast<uint32_t>(event), number});
  }
}

// QPs keep the GID that they were connected with, as the kernel keeps a removed entry for them.
void Runtime::set_gid(uint32_t device, uint32_t number, uint32_t index, const GidEntry& entry) {
  const DeviceConfig& config = this->config().devices[device];
  GidEntry typed = entry;
  if (!config.port(number).ethernet()) typed.type = IBV_GID_TYPE_IB;
  write_gid(process_.port(device, number), index, typed);
  write_gid_files(process_.folder() + "/sys", config, number, index, typed);
  report(device, number, IBV_EVENT_GID_CHANGE);
}

// Packets to the old LID are lost from then on, those of connected QPs as well.
void Runtime::set_lid(uint32_t device, uint32_t number, uint16_t lid) {
  process_.port(device, number).lid.store(lid);
  write_lid_file(process_.folder() + "/sys", config().devices[device], number, lid);
  for (uint32_t index = 0; index < kMaxQps; ++index) {
    SharedQp& shared = process_.arena().qp(index);
    if (qps_.find(index) == nullptr || shared.device != device || shared.port != number) continue;
    shared.epoch.fetch_add(1);
  }
  report(device, number, IBV_EVENT_LID_CHANGE);
}

void Runtime::wake() { engine_.wake(); }

void Runtime::fail_qps(uint32_t device, uint32_t number) {
  stop_qps(device, number, IBV_EVENT_QP_FATAL);
}

// The event comes last: whoever reads it finds that every call fails.
void Runtime::fail_device(uint32_t device, bool removed, bool silent) {
  devices_[device]->health.store(removed ? DeviceHealth::kRemoved : DeviceHealth::kFatal);
  if (removed) remove_sysfs_tree(process_.folder() + "/sys", config().devices[device]);
  for (uint32_t number = 1; number <= config().devices[device].ports; ++number) {
    process_.port(device, number).state.store(IBV_PORT_DOWN);
    if (silent) silence_qps(device, number);
    stop_qps(device, number, -1);
  }
  report(device, 0, IBV_EVENT_DEVICE_FATAL);
}

void Runtime::silence_qps(uint32_t device, uint32_t number) {
  for (uint32_t index = 0; index < kMaxQps; ++index) {
    SharedQp& shared = process_.arena().qp(index);
    if (qps_.find(index) == nullptr || shared.device != device || shared.port != number) continue;
    shared.silent.store(1);
  }
}

// `event` is that which each QP gets, or -1.
void Runtime::stop_qps(uint32_t device, uint32_t number, int event) {
  for (uint32_t index = 0; index < kMaxQps; ++index) {
    SharedQp& shared = process_.arena().qp(index);
    if (qps_.find(index) == nullptr || shared.device != device || shared.port != number) continue;
    SharedLock lock(shared.mutex);
    uint32_t state = shared.state.load();
    if (shared.live.load() == 0 || state == IBV_QPS_ERR || state == IBV_QPS_RESET) continue;
    shared.state.store(IBV_QPS_ERR);
    flush_receives(process_, process_.self(), shared);
    if (event < 0) continue;
    post_event(process_, process_.self(), shared.async_queue,
               {static_cast<uint32_t>(event), index});
  }
  engine_.wake();  // queued requests have to be flushed
}

}  // namespace softhca

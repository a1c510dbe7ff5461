#include "softhca/fabric/process.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "softhca/datapath/engine.h"
#include "softhca/fabric/event_queue.h"
#include "softhca/fabric/sysfs_tree.h"
#include "softhca/model/faults.h"
#include "softhca/verbs/context.h"
#include "softhca/verbs/qp.h"

namespace softhca {

namespace {

// The only global state: null before the first use, and again in a forked child.
std::atomic<Process*> g_current{nullptr};
std::mutex g_join_mutex;

uint64_t random_instance() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value || value == 0) value = getpid();
  return value;
}

// The child has no arena of its own yet, and must not touch its parent's.
void forget_parent() {
  g_current.store(nullptr);
  // Another thread of the parent may have held it.
  new (&g_join_mutex) std::mutex;
}

}  // namespace

int IndexPool::take() {
  std::lock_guard lock(mutex_);
  for (size_t tried = 0; tried < used_.size(); ++tried) {
    uint32_t index = next_;
    next_ = (next_ + 1) % static_cast<uint32_t>(used_.size());
    if (used_[index]) continue;
    used_[index] = true;
    return static_cast<int>(index);
  }
  return -1;
}

void IndexPool::give(uint32_t index) {
  std::lock_guard lock(mutex_);
  used_[index] = false;
}

Process* Process::current() { return g_current.load(std::memory_order_acquire); }

Process* Process::get() {
  if (Process* process = current()) return process;
  std::lock_guard lock(g_join_mutex);
  if (Process* process = current()) return process;
  gdr::Result<Process*> process = join();
  if (!process) {
    fprintf(stderr, "softhca: no devices: %s\n", process.error().text.c_str());
    return nullptr;
  }
  g_current.store(*process);
  return *process;
}

gdr::Result<Process*> Process::join() {
  gdr::Result<Config> config = Config::load(getenv("SOFTHCA_CONFIG"));
  if (!config) return gdr::forward_error(config);
  uint64_t instance = random_instance();
  gdr::Result<Registry> registry = Registry::join(config->fabric, instance);
  if (!registry) return gdr::forward_error(registry);
  std::string folder = registry->slot_folder(registry->slot());
  gdr::Result<Arena> arena = Arena::create(folder + "/arena");
  if (!arena) {
    registry->leave();
    return gdr::forward_error(arena);
  }
  ArenaHeader& header = arena->header();
  header.magic = kArenaMagic;
  header.version = kLayoutVersion;
  header.slot = registry->slot();
  header.pid = static_cast<uint32_t>(getpid());
  header.instance = instance;
  header.atomics.init();
  auto self = std::make_shared<Peer>(std::move(*arena), true, true);
  auto* process = new Process(std::move(*config), std::move(*registry), std::move(self));
  static std::once_flag hooks;
  std::call_once(hooks, [] {
    pthread_atfork(nullptr, nullptr, forget_parent);
    atexit(leave_at_exit);
  });
  // Peers copy to and from this process's memory.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  return process;
}

Process::Process(Config config, Registry registry, std::shared_ptr<Peer> self)
    : config_(std::move(config)),
      registry_(std::move(registry)),
      folder_(registry_.slot_folder(registry_.slot())),
      instance_(self->instance()),
      self_(std::move(self)),
      heap_(self_->arena()),
      staging_(self_->arena(), heap_, config_.staging_bytes),
      engine_(std::make_unique<Engine>(*this)),
      faults_(std::make_unique<Faults>(*this)),
      signal_socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  fill_ports();
  for (const DeviceConfig& device : config_.devices) make_sysfs_tree(folder_ + "/sys", device);
  make_module_tree(folder_ + "/sys", config_.gpu.peermem);
  ArenaHeader& header = arena().header();
  header.instance_address = reinterpret_cast<uint64_t>(&instance_);
  header.alive.store(1, std::memory_order_release);
}

void Process::fill_ports() {
  for (uint32_t device = 0; device < config_.devices.size(); ++device) {
    const DeviceConfig& config = config_.devices[device];
    for (uint32_t number = 1; number <= config.ports; ++number) {
      SharedPort& shared = port(device, number);
      shared.state.store(IBV_PORT_ACTIVE);
      shared.lid = config.ethernet ? 0 : static_cast<uint16_t>(config.lid + number - 1);
      shared.link_layer = config.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
      for (const GidEntry& entry : config.gid_table(number)) {
        shared.gids[shared.gid_count++] = entry.gid;
      }
    }
  }
}

// Threads of the application may go on until the process ends: nothing is unmapped or freed.
void Process::leave_at_exit() {
  Process* process = current();
  if (process == nullptr) return;
  process->arena().header().alive.store(0);
  process->registry_.leave();
}

std::shared_ptr<Peer> Process::peer(uint32_t slot) {
  if (slot == this->slot()) return self_;
  uint64_t instance = registry_.instance(slot);
  if (instance == 0) return nullptr;
  std::lock_guard lock(peers_mutex_);
  std::shared_ptr<Peer> known = peers_[slot].lock();
  if (known != nullptr && known->instance() == instance) return known;
  gdr::Result<Arena> arena = Arena::open(registry_.slot_folder(slot) + "/arena");
  if (!arena || arena->header().alive.load() == 0 || arena->header().magic != kArenaMagic) {
    return nullptr;
  }
  auto peer = std::make_shared<Peer>(std::move(*arena), false, config_.process_vm);
  peers_[slot] = peer;
  return peer;
}

void Process::add_context(Context* context) {
  {
    std::lock_guard lock(contexts_mutex_);
    contexts_.push_back(context);
  }
  faults_->begin();
}

void Process::remove_context(Context* context) {
  std::lock_guard lock(contexts_mutex_);
  std::erase(contexts_, context);
}

void Process::set_port_state(uint32_t device, uint32_t number, ibv_port_state state) {
  port(device, number).state.store(state);
  uint32_t event = state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  std::lock_guard lock(contexts_mutex_);
  for (Context* context : contexts_) {
    if (context->device->index != device) continue;
    post_event(*this, *self_, context->async_events->index(), {event, number});
  }
}

void Process::fail_qps(uint32_t device, uint32_t number) {
  for (uint32_t index = 0; index < kMaxQps; ++index) {
    SharedQp& shared = arena().qp(index);
    if (qps[index].load() == nullptr || shared.device != device || shared.port != number) continue;
    SharedLock lock(shared.mutex);
    uint32_t state = shared.state.load();
    if (shared.live.load() == 0 || state == IBV_QPS_ERR || state == IBV_QPS_RESET) continue;
    shared.state.store(IBV_QPS_ERR);
    flush_receives(*this, *self_, shared);
    post_event(*this, *self_, shared.async_queue, {IBV_EVENT_QP_FATAL, index});
  }
}

}  // namespace softhca

#include "softhca/fabric/process.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "softhca/fabric/sysfs_tree.h"

namespace softhca {

namespace {

uint64_t random_instance() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value || value == 0) value = getpid();
  return value;
}

// Creates the arena of a process that has claimed a slot, and fills in its identity.
gdr::Result<Arena> make_arena(const Registry& registry, uint64_t instance) {
  gdr::Result<Arena> arena = Arena::create(registry.slot_folder(registry.slot()) + "/arena");
  if (!arena) return arena;
  ArenaHeader& header = arena->header();
  header.magic = kArenaMagic;
  header.version = kLayoutVersion;
  header.slot = registry.slot();
  header.pid = static_cast<uint32_t>(getpid());
  header.instance = instance;
  header.atomics.init();
  return arena;
}

void fill_port(const DeviceConfig& device, uint32_t number, SharedPort* shared) {
  const PortConfig& config = device.port(number);
  shared->state.store(IBV_PORT_ACTIVE);
  shared->lid.store(config.lid);
  shared->flid = config.flid;
  shared->router_lid = config.router_lid;
  shared->link_layer = config.link_layer;
  shared->grh_required = config.grh == GrhRule::kOptional ? 0 : 1;
  shared->subnet_prefix = config.subnet_prefix;
  shared->max_msg_sz = config.max_msg_sz;
  shared->gids_mutex.init();
  for (const GidEntry& entry : device.gid_table(number)) shared->gids[shared->gid_count++] = entry;
}

}  // namespace

gdr::Result<Process*> Process::join() {
  gdr::Result<Config> config = Config::load(getenv("SOFTHCA_CONFIG"), getenv("SOFTHCA_FABRIC"));
  if (!config) return gdr::forward_error(config);
  uint64_t instance = random_instance();
  gdr::Result<Registry> registry = Registry::join(config->fabric, instance);
  if (!registry) return gdr::forward_error(registry);
  gdr::Result<Arena> arena = make_arena(*registry, instance);
  if (!arena) {
    registry->leave();
    return gdr::forward_error(arena);
  }
  auto self = std::make_shared<Peer>(std::move(*arena), true, true);
  auto* process = new Process(std::move(*config), std::move(*registry), std::move(self));
  // Peers copy to and from this process's memory with process_vm_readv and process_vm_writev. Where
  // Yama restricts ptrace to descendants (ptrace_scope 1), that needs this permission.
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
      signal_socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!config_.counters_file.empty()) {
    counters_ = std::make_unique<Counters>(config_.counters_file, config_.devices);
  }
  fill_ports();
  for (const DeviceConfig& device : config_.devices) make_sysfs_tree(folder_ + "/sys", device);
  make_module_tree(folder_ + "/sys", config_.gpu.peermem);
  reserve_gids();
  ArenaHeader& header = arena().header();
  header.instance_address = reinterpret_cast<uint64_t>(&instance_);
  header.alive.store(1, std::memory_order_release);
}

void Process::fill_ports() {
  for (uint32_t device = 0; device < config_.devices.size(); ++device) {
    const DeviceConfig& config = config_.devices[device];
    for (uint32_t number = 1; number <= config.ports; ++number) {
      fill_port(config, number, &port(device, number));
    }
  }
}

// A table has room from the start for the entries that faults add: its length never changes.
void Process::reserve_gids() {
  for (const FaultConfig& fault : config_.faults) {
    if (fault.kind != FaultKind::kGidChange) continue;
    auto device = std::ranges::find(config_.devices, fault.device, &DeviceConfig::name);
    auto index = static_cast<uint32_t>(device - config_.devices.begin());
    SharedPort& shared = port(index, fault.port);
    shared.gid_count = std::max(shared.gid_count, fault.gid_index + 1);
  }
}

void Process::leave() {
  if (counters_ != nullptr) counters_->write();
  arena().header().alive.store(0);
  registry_.leave();
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

}  // namespace softhca

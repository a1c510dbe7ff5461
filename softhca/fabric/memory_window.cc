#include "softhca/fabric/memory_window.h"

#include <thread>

#include "softhca/model/clock.h"

namespace softhca {

namespace {

constexpr uint64_t kPatienceNs = 2'000'000'000;
constexpr uint32_t kRemoteChange = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kRemote = kRemoteChange | IBV_ACCESS_REMOTE_READ;

// The functions below are called with ArenaHeader::windows held.

// Returns the region that the window may be bound to, or null (IBTA 11.4.1.1, C10-72 to C10-75).
SharedMr* region_for(const Peer& owner, const WindowBinding& binding) {
  SharedMr& region = owner.arena().mr(key_index(binding.region));
  if (binding.region == 0 || region.key.load() != binding.region) return nullptr;
  if (region.region != 0 || region.pd != binding.pd) return nullptr;
  if ((region.access & IBV_ACCESS_MW_BIND) == 0) return nullptr;
  bool changes = (binding.access & kRemoteChange) != 0;
  if (changes && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) return nullptr;
  uint64_t offset = binding.address - region.iova;
  bool inside = binding.address >= region.iova && offset <= region.length &&
                binding.length <= region.length - offset;
  return inside ? &region : nullptr;
}

void end_binding(const Peer& owner, SharedMr& window) {
  if (window.key.load() == 0) return;
  withdraw(window);
  owner.arena().mr(key_index(window.region)).windows.fetch_sub(1);
}

void begin_binding(const WindowBinding& binding, SharedMr& region, SharedMr& window) {
  region.windows.fetch_add(1);
  window.pd = binding.pd;
  window.access = binding.access & kRemote;
  window.iova = (binding.access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : binding.address;
  window.length = binding.length;
  window.address = binding.address;
  window.gpu = region.gpu;
  window.region = binding.region;
  window.qpn = binding.qpn;
  window.key.store(binding.key);
}

}  // namespace

void withdraw(SharedMr& mr) {
  mr.key.store(0);
  uint64_t until = now_ns() + kPatienceNs;
  while (mr.users.load() != 0) {
    if (now_ns() >= until) {
      mr.users.store(0);
      return;
    }
    std::this_thread::yield();
  }
}

bool withdraw_region(const Peer& owner, SharedMr& region) {
  {
    SharedLock lock(owner.arena().header().windows);
    if (region.windows.load() != 0) return false;
    region.key.store(0);
  }
  withdraw(region);
  return true;
}

bool bind_window(const Peer& owner, const WindowBinding& binding) {
  SharedLock lock(owner.arena().header().windows);
  SharedMr& window = owner.arena().mr(binding.index);
  bool type2 = binding.qpn != 0;
  if (type2 && window.key.load() != 0) return false;
  if (!type2 && binding.length == 0) {
    end_binding(owner, window);
    return true;
  }
  SharedMr* region = binding.length == 0 ? nullptr : region_for(owner, binding);
  if (region == nullptr) return false;
  end_binding(owner, window);
  begin_binding(binding, *region, window);
  return true;
}

bool invalidate_window(const Peer& owner, uint32_t rkey, const Accessor& by) {
  if (rkey == 0 || (rkey >> 24) != (owner.slot() & 0xff)) return false;
  SharedLock lock(owner.arena().header().windows);
  SharedMr& window = owner.arena().mr(key_index(rkey));
  if (window.key.load() != rkey || window.region == 0) return false;
  if (window.qpn == 0 || window.qpn != by.qpn || window.pd != by.pd) return false;
  end_binding(owner, window);
  return true;
}

void unbind_window(const Peer& owner, uint32_t index) {
  SharedLock lock(owner.arena().header().windows);
  end_binding(owner, owner.arena().mr(index));
}

}  // namespace softhca

#include "transport/device/registration_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/log.h"

namespace gdr::transport {
namespace {

// REMOTE_READ is for the flush, which is a loopback RDMA read of the buffer that was just written.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

}  // namespace

RegistrationCache::RegistrationCache(const verbs::Api& api, ibv_pd* pd, std::string device_name,
                                     bool data_direct)
    : api_(api),
      pd_(pd),
      data_direct_(data_direct),
      device_name_(std::move(device_name)),
      page_mask_(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1) {}

size_t RegistrationCache::size() const {
  std::lock_guard lock(mutex_);
  return registrations_.size();
}

size_t RegistrationCache::gpu_bytes() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [mr, registration] : registrations_) {
    if (registration.gpu) sum += registration.key.end - registration.key.begin;
  }
  return sum;
}

Result<ibv_mr*> RegistrationCache::acquire(const MemoryRegion& region, PciOrdering ordering) {
  Result<Key> key = key_of(region, ordering);
  if (!key) return forward_error(key);
  {
    std::lock_guard lock(mutex_);
    if (ibv_mr* known = share_covering(*key)) return known;
  }
  std::shared_lock registering(registering_);
  Result<verbs::UniqueMr> made = register_region(*key, region, ordering);
  if (!made) {
    registering.unlock();
    const std::lock_guard none_is_registering(registering_);
  }
  std::lock_guard lock(mutex_);  // ends before `made`, which may be deregistered
  if (ibv_mr* known = share_covering(*key)) return known;
  if (!made) return forward_error(made);
  ibv_mr* mr = made->get();
  auto it = registrations_.try_emplace(mr, Registration{*key, region.cuda, std::move(*made)}).first;
  by_range_.emplace(*key, &it->second);
  longest_ = std::max(longest_, key->end - key->begin);
  return mr;
}

void RegistrationCache::release(ibv_mr* mr) {
  decltype(registrations_)::node_type unused;  // deregistered after the mutex is released
  std::lock_guard lock(mutex_);
  auto found = registrations_.find(mr);
  if (found == registrations_.end() || --found->second.references > 0) return;
  by_range_.erase(found->second.key);
  if (by_range_.empty()) longest_ = 0;
  unused = registrations_.extract(found);
}

Result<RegistrationCache::Key> RegistrationCache::key_of(const MemoryRegion& region,
                                                         PciOrdering ordering) const {
  // A dma-buf may end with the region; memory is pinned by pages.
  const bool dmabuf = region.dmabuf_fd >= 0;
  const uintptr_t rounding = dmabuf ? 0 : page_mask_;
  uintptr_t end = 0;
  if (__builtin_add_overflow(region.address, region.bytes, &end) || end > UINTPTR_MAX - rounding) {
    return fail(Code::kInvalidArgument, "the buffer to register wraps around the address space");
  }
  return Key{size_t{dmabuf} * 2 + size_t{ordering == PciOrdering::kRelaxed},
             region.address & ~rounding, (end + rounding) & ~rounding};
}

// Takes a reference on a registration that covers the range; null if there is none. The mutex is
// held. It walks back from the last range that begins early enough to the first one that is long
// enough, or until what begins still earlier would be too short. That is few steps for ranges side
// by side, and at most all of them: a process has some hundred, and a search costs much less than a
// registration.
ibv_mr* RegistrationCache::share_covering(const Key& wanted) {
  auto range = by_range_.upper_bound({wanted.kind, wanted.begin, UINTPTR_MAX});
  while (range != by_range_.begin()) {
    const auto& [key, registration] = *--range;
    if (key.kind != wanted.kind || wanted.end - key.begin > longest_) break;
    if (key.end < wanted.end) continue;
    ++registration->references;
    return registration->mr.get();
  }
  return nullptr;
}

ibv_mr* RegistrationCache::register_dmabuf(const Key& key, const MemoryRegion& region, int access) {
  const size_t bytes = key.end - key.begin;
  if (data_direct_) {
    ibv_mr* mr = api_.mlx5()->reg_dmabuf_mr(pd_, region.dmabuf_offset, bytes, key.begin,
                                            region.dmabuf_fd, access, verbs::kMlx5DataDirect);
    if (mr != nullptr) return mr;
    if (!data_direct_failure_logged_.exchange(true)) {
      GDR_WARN(
          "%s: registering GPU memory with Data Direct failed (errno %d); it is registered "
          "without. Fix: look in dmesg for the reason, or set NCCL_IB_DATA_DIRECT=0",
          device_name_.c_str(), errno);
    }
    errno = 0;
  }
  return api_.reg_dmabuf_mr(pd_, region.dmabuf_offset, bytes, key.begin, region.dmabuf_fd, access);
}

Result<verbs::UniqueMr> RegistrationCache::register_region(const Key& key,
                                                           const MemoryRegion& region,
                                                           PciOrdering ordering) {
  const bool dmabuf = region.dmabuf_fd >= 0;
  const bool relaxed = ordering == PciOrdering::kRelaxed;
  size_t bytes = key.end - key.begin;
  int access = kAccess | (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
  ibv_mr* mr = nullptr;
  errno = 0;
  if (dmabuf) {
    mr = register_dmabuf(key, region, access);
  } else if (relaxed) {
    // Unlike the symbol ibv_reg_mr, this drops optional flags that the kernel does not know
    // (rdma-core libibverbs/verbs.c).
    mr = api_.reg_mr_iova2(pd_, reinterpret_cast<void*>(key.begin), bytes, key.begin, access);
  } else {
    mr = api_.reg_mr(pd_, reinterpret_cast<void*>(key.begin), bytes, access);
  }
  if (mr != nullptr) return verbs::UniqueMr(mr, {&api_});
  int err = errno;
  char where[128];
  std::snprintf(where, sizeof(where), "registering %zu bytes at %p%s on ", bytes,
                reinterpret_cast<void*>(key.begin), dmabuf ? " by dma-buf" : "");
  const std::string text = where + device_name_ + " failed";
  return fail_errno(Code::kSystem, text, err);
}

}  // namespace gdr::transport

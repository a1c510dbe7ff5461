#include "transport/device/registration_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace gdr::transport {
namespace {

// REMOTE_READ is for the flush, a loopback read of the buffer that was just written.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

const char* advice_for(int err) {
  return err == ENOMEM ? ". Raise the memory-lock limit (ulimit -l unlimited; containers: IPC_LOCK)"
                       : "";
}

}  // namespace

RegistrationCache::RegistrationCache(const verbs::Api& api, ibv_pd* pd, std::string device_name)
    : api_(api),
      pd_(pd),
      device_name_(std::move(device_name)),
      page_mask_(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1) {}

// A registration in the making. Made and ended under the lock; in between, the lock is open.
class RegistrationCache::Pending {
 public:
  Pending(RegistrationCache& cache, std::unique_lock<std::mutex>& lock, const Key& key)
      : cache_(cache), lock_(lock), key_(key) {
    cache_.pending_.push_back(key_);
    lock_.unlock();
  }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() {
    if (!lock_.owns_lock()) lock_.lock();
    std::erase(cache_.pending_, key_);
    cache_.pending_ended_.notify_all();
  }

 private:
  RegistrationCache& cache_;
  std::unique_lock<std::mutex>& lock_;
  Key key_;
};

size_t RegistrationCache::size() const {
  std::lock_guard lock(mutex_);
  return registrations_.size();
}

size_t RegistrationCache::gpu_bytes() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [mr, registration] : registrations_) {
    if (registration.gpu) sum += registration.end - registration.begin;
  }
  return sum;
}

Result<ibv_mr*> RegistrationCache::acquire(MemoryRange range, const MemorySource& source) {
  Result<Key> key = key_of(range, source);
  if (!key) return forward_error(key);
  std::unique_lock lock(mutex_);
  Registration* found = nullptr;
  while ((found = find_covering(*key)) == nullptr && is_pending(*key)) pending_ended_.wait(lock);
  if (found != nullptr) {
    ++found->references;
    return found->mr.get();
  }
  // What is pending holds off equal ranges, so there is no second registration of this one.
  Pending pending(*this, lock, *key);
  Result<verbs::UniqueMr> made = register_range(*key, source);
  if (!made) return forward_error(made);
  lock.lock();
  ibv_mr* mr = made->get();
  auto it = registrations_.try_emplace(mr, *key, source.gpu, std::move(*made)).first;
  ranges_[key->kind].insert(&it->second);
  return mr;
}

void RegistrationCache::release(ibv_mr* mr) {
  decltype(registrations_)::node_type unused;  // deregistered after the lock is let go
  std::lock_guard lock(mutex_);
  auto found = registrations_.find(mr);
  if (found == registrations_.end() || --found->second.references > 0) return;
  ranges_[found->second.kind].erase(&found->second);
  unused = registrations_.extract(found);
}

Result<RegistrationCache::Key> RegistrationCache::key_of(MemoryRange range,
                                                         const MemorySource& source) const {
  // A dma-buf ends where its range ends; host memory is pinned by pages.
  const uintptr_t rounding = source.dmabuf ? 0 : page_mask_;
  uintptr_t end = 0;
  if (__builtin_add_overflow(range.address, range.bytes, &end) || end > UINTPTR_MAX - rounding) {
    return fail(Code::kInvalidArgument, "the buffer to register wraps around the address space");
  }
  return Key{range.address & ~rounding, (end + rounding) & ~rounding,
             size_t{source.dmabuf} * 2 + size_t{source.relaxed_ordering}};
}

RegistrationCache::Registration* RegistrationCache::find_covering(const Key& wanted) {
  return static_cast<Registration*>(ranges_[wanted.kind].find_covering(wanted.begin, wanted.end));
}

bool RegistrationCache::is_pending(const Key& wanted) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const Key& key) { return key.covers(wanted); });
}

Result<verbs::UniqueMr> RegistrationCache::register_range(const Key& key,
                                                          const MemorySource& source) {
  size_t bytes = key.end - key.begin;
  int access = kAccess | (source.relaxed_ordering ? IBV_ACCESS_RELAXED_ORDERING : 0);
  ibv_mr* mr = nullptr;
  errno = 0;
  if (source.dmabuf) {
    mr = api_.reg_dmabuf_mr(pd_, source.offset, bytes, key.begin, source.fd, access);
  } else if (source.relaxed_ordering) {
    mr = api_.reg_mr_iova2(pd_, reinterpret_cast<void*>(key.begin), bytes, key.begin, access);
  } else {
    mr = api_.reg_mr(pd_, reinterpret_cast<void*>(key.begin), bytes, access);
  }
  if (mr != nullptr) return verbs::UniqueMr(mr, {&api_});
  int err = errno;
  char where[128];
  std::snprintf(where, sizeof(where), "registering %zu bytes at %p%s on ", bytes,
                reinterpret_cast<void*>(key.begin), source.dmabuf ? " by dma-buf" : "");
  Error error = fail_errno(Code::kSystem, where + device_name_ + " failed", err).value();
  if (!source.gpu) error.text += advice_for(err);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace gdr::transport

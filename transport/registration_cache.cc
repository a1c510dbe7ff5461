#include "transport/registration_cache.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace gdr {
namespace {

// REMOTE_READ is for the flush, a loopback read of the buffer that was just written.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

std::string advice_for(int err, bool dmabuf) {
  if (err == ENOMEM) {
    return ". Raise the memory-lock limit (ulimit -l unlimited; containers: IPC_LOCK)" +
           std::string(dmabuf ? ", and check that the GPU's BAR1 covers its memory" : "");
  }
  if (err == EFAULT) return ". For GPU memory without dma-buf, load nvidia-peermem";
  return "";
}

}  // namespace

RegistrationCache::RegistrationCache(const VerbsApi& api, ibv_pd* pd, std::string device_name)
    : api_(api),
      pd_(pd),
      device_name_(std::move(device_name)),
      page_mask_(static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)) - 1) {}

size_t RegistrationCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

size_t RegistrationCache::gpu_bytes() const {
  std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [key, entry] : entries_) {
    if (entry.gpu) sum += key.end - key.begin;
  }
  return sum;
}

RegistrationCache::Entries::iterator RegistrationCache::find_covering(const Key& wanted) {
  // The range with the greatest begin that is not after ours is the likeliest to cover it; a miss
  // only costs another registration.
  auto it = entries_.upper_bound(Key{wanted.begin, UINTPTR_MAX, true, true});
  constexpr int kLookBack = 4;
  for (int step = 0; step < kLookBack && it != entries_.begin(); ++step) {
    --it;
    const Key& key = it->first;
    if (key.dmabuf == wanted.dmabuf && key.relaxed_ordering == wanted.relaxed_ordering &&
        key.begin <= wanted.begin && key.end >= wanted.end) {
      return it;
    }
  }
  return entries_.end();
}

Result<ibv_mr*> RegistrationCache::acquire(MemoryRange range, const MemorySource& source) {
  if (range.address + range.bytes < range.address) {
    return fail(Code::kInvalidArgument, "the buffer to register wraps around the address space");
  }
  Key key{range.address, range.address + range.bytes, source.dmabuf, source.relaxed_ordering};
  if (!source.dmabuf) {  // a dma-buf ends where its range ends; host memory is pinned by pages
    key.begin &= ~page_mask_;
    key.end = (key.end + page_mask_) & ~page_mask_;
  }
  std::lock_guard lock(mutex_);
  auto it = find_covering(key);
  if (it == entries_.end()) {
    Result<UniqueMr> mr = register_range(key, source);
    if (!mr) return forward_error(mr);
    it = entries_.emplace(key, Entry{std::move(*mr), 0, source.gpu}).first;
    by_mr_.emplace(it->second.mr.get(), it);
  }
  ++it->second.references;
  return it->second.mr.get();
}

void RegistrationCache::release(ibv_mr* mr) {
  std::lock_guard lock(mutex_);
  auto found = by_mr_.find(mr);
  if (found == by_mr_.end()) return;
  auto it = found->second;
  if (--it->second.references > 0) return;
  by_mr_.erase(found);
  entries_.erase(it);
}

Result<UniqueMr> RegistrationCache::register_range(const Key& key, const MemorySource& source) {
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
  if (mr != nullptr) return UniqueMr(mr, {&api_});
  int err = errno;
  char where[128];
  std::snprintf(where, sizeof(where), "registering %zu bytes at %p%s on ", bytes,
                reinterpret_cast<void*>(key.begin), source.dmabuf ? " by dma-buf" : "");
  Error error = fail_errno(Code::kSystem, where + device_name_ + " failed", err).value();
  error.text += advice_for(err, source.dmabuf);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace gdr

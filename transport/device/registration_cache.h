// The registrations (MRs) of one protection domain, shared by all comms on an HCA: NCCL registers
// the same buffers for many comms, and users register sub-ranges of their buffers.
//
// Registering and deregistering take long, since the kernel pins or unpins every page, so neither
// holds the cache's mutex. Where two threads register a range at the same time, the one that is
// later drops its own registration. One that fails waits for those under way first: what the other
// one takes, of the memory that may be locked or of BAR1, may be what it lacks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "base/result.h"
#include "drivers/verbs/handles.h"

namespace gdr::transport {

// A range of memory that is to be registered: NCCL's regMr and regMrDmaBuf fill it. On its
// way to the verbs call it may be rounded to whole pages, get a dma-buf exported for it, or lose
// its dma-buf, as the registration path needs.
struct MemoryRegion {
  uintptr_t address;  // of host or of GPU memory
  size_t bytes;
  bool cuda = false;           // GPU memory
  int dmabuf_fd = -1;          // a dma-buf that holds the range, borrowed for the call; -1: none
  uint64_t dmabuf_offset = 0;  // of the range's first byte in the dma-buf
};

// Whether PCIe writes of the HCA to the memory may overtake each other
// (IBV_ACCESS_RELAXED_ORDERING). Faster on some CPUs; the completion of a message is still ordered
// after its data.
enum class PciOrdering : uint8_t { kStrict, kRelaxed };

// Thread-safe: NCCL registers from its service threads, for several comms at once, while progress
// threads move data.
class RegistrationCache {
 public:
  // Neither api nor pd is owned. device_name is for error texts. With data_direct, dma-bufs are
  // registered by mlx5's Data Direct; where that fails, without it, which is logged once.
  RegistrationCache(const verbs::Api& api, ibv_pd* pd, std::string device_name,
                    bool data_direct = false);

  // Returns a registration that covers the region: a cached one of the same kind (dma-buf or not,
  // ordering), or a new one. A new one by address covers whole pages, as the kernel pins them; one
  // of a dma-buf exactly the region. Every acquire needs one release(), before the memory is freed.
  // The dma-buf's descriptor is not used after the call. The error of a failed verbs call has its
  // errno in sys_errno.
  Result<ibv_mr*> acquire(const MemoryRegion& region, PciOrdering ordering);
  // Drops one reference. The last one deregisters before it returns.
  void release(ibv_mr* mr);

  size_t size() const;       // registrations, however many references each has
  size_t gpu_bytes() const;  // bytes of GPU memory that are registered now

 private:
  // What identifies a registration. Only registrations of the same kind can replace each other.
  struct Key {
    size_t kind;  // by dma-buf or by address, with either ordering
    uintptr_t begin;
    uintptr_t end;
    auto operator<=>(const Key&) const = default;
  };
  struct Registration {
    Key key;
    bool gpu;
    verbs::UniqueMr mr;
    int references = 1;
  };

  Result<Key> key_of(const MemoryRegion& region, PciOrdering ordering) const;
  ibv_mr* share_covering(const Key& wanted);
  Result<verbs::UniqueMr> register_region(const Key& key, const MemoryRegion& region,
                                          PciOrdering ordering);
  ibv_mr* register_dmabuf(const Key& key, const MemoryRegion& region, int access);

  const verbs::Api& api_;
  ibv_pd* pd_;
  const bool data_direct_;
  std::atomic<bool> data_direct_failure_logged_{false};
  std::string device_name_;
  uintptr_t page_mask_;
  std::shared_mutex registering_;  // shared from a registration to its entry below
  mutable std::mutex mutex_;       // guards everything below
  std::map<ibv_mr*, Registration> registrations_;
  std::map<Key, Registration*> by_range_;
  uintptr_t longest_ = 0;  // at least the length of each range
};

}  // namespace gdr::transport

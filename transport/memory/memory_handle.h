// What regMr returns: the registrations of one buffer for one comm; and what the buffers of a
// connection share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "transport/device/hca.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

// An allocation of GPU memory as the CUDA driver knows it (cuMemGetAddressRange).
struct GpuAllocation {
  uintptr_t address = 0;
  size_t bytes = 0;
};

// Which registrations of GPU memory on a connection are NCCL's own buffers, and which are users'.
// NCCL registers two kinds of GPU memory on a comm, and nothing in the call distinguishes them:
// - Its own buffers, right after connect or accept (src/transport/net.cc: sendProxyConnect,
//   recvProxyConnect). They are parts of one allocation, and NCCL ends the job where one is
//   refused.
// - Users' buffers, later (net.cc: sendProxyRegBuffer, recvProxyRegBuffer), each an allocation of
//   its own. NCCL goes on without those that are refused.
//
// Thread-safe.
class OwnAllocations {
 public:
  // Held by the registrations of NCCL's own buffers. An allocation is NCCL's while one lives.
  using Own = std::shared_ptr<const GpuAllocation>;

  // Returns what to keep with the registration of one of NCCL's own buffers, null for a user's
  // buffer. NCCL's own are the first registration, and any in an allocation that holds one of
  // these.
  // relayed: also another allocation of the first one's size is NCCL's own. With PXN a process
  // sends for other ranks of its machine over one shared comm, and has a buffer for each (net.cc:
  // sharedNetBuffersInit), all of one size.
  Own claim(const GpuAllocation& allocation, bool relayed) {
    std::lock_guard lock(mutex_);
    std::erase_if(own_, [](const auto& known) { return known.expired(); });
    bool same_size = false;
    for (const auto& known : own_) {
      Own own = known.lock();
      if (own == nullptr) continue;
      if (own->address == allocation.address) return own;
      same_size = same_size || own->bytes == allocation.bytes;
    }
    if (!own_.empty() && !(relayed && same_size)) return nullptr;
    Own own = std::make_shared<const GpuAllocation>(allocation);
    own_.push_back(own);
    return own;
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::vector<std::weak_ptr<const GpuAllocation>> own_;
};

// What the buffers of a connection hold on its standby rails, so that it can be given back while
// NCCL has them registered: references into the registration caches of the HCAs, by the handle of
// their buffer and by rail. Thread-safe.
class StandbyRegistrations {
 public:
  // Takes over a reference to `mr`; on a rail that has been given back, releases it at once.
  void add(const void* handle, size_t rail, std::shared_ptr<HcaContext> hca, ibv_mr* mr) {
    Reference added(mr, {std::move(hca)});
    std::lock_guard lock(mutex_);
    if ((given_back_ >> rail & 1) == 0) held_[handle][rail] = std::move(added);
  }
  // The handle ends.
  void release(const void* handle) {
    decltype(held_)::node_type released;  // deregistered after the mutex is released
    std::lock_guard lock(mutex_);
    released = held_.extract(handle);
  }
  // Nothing is transferred over the rail any more. A release() waits for it: NCCL frees the memory
  // behind it, and what is registered of that must not be found any more then.
  void give_back(size_t rail) {
    std::lock_guard lock(mutex_);
    given_back_ |= 1u << rail;
    for (auto& [handle, by_rail] : held_) by_rail.erase(rail);
  }

 private:
  struct Release {
    std::shared_ptr<HcaContext> hca;
    void operator()(ibv_mr* mr) const { hca->registrations().release(mr); }
  };
  using Reference = std::unique_ptr<ibv_mr, Release>;

  std::mutex mutex_;  // guards all that follows
  std::map<const void*, std::map<size_t, Reference>> held_;
  uint32_t given_back_ = 0;  // bit per rail
};

// Flags of clear-to-send slots (wire::ClearToSend::flags). They may change while handles refer to
// them, and are read by data paths.
using SlotFlags = std::atomic<uint32_t>;

// The registrations of one buffer on the rails of one comm. Deregisters with its destructor. A
// comm's data path only reads it.
// What isend and irecv read comes first, in one cache line for up to four rails.
struct alignas(64) MemoryHandle {
  struct RailKeys {
    uint32_t lkey = 0;
    uint32_t rkey = 0;
  };
  // By rail; those of rails that the connection does not have are zero. All rkeys lie together, as
  // a clear-to-send slot names them, so that irecv copies them as a block, which takes fewer
  // instructions than a loop over the rails.
  class Keys {
   public:
    RailKeys operator[](size_t rail) const { return {lkeys_[rail], rkeys_[rail]}; }
    void set(size_t rail, RailKeys rail_keys) {
      lkeys_[rail] = rail_keys.lkey;
      rkeys_[rail] = rail_keys.rkey;
    }
    const std::array<uint32_t, wire::kMaxRails>& rkeys() const { return rkeys_; }

   private:
    std::array<uint32_t, wire::kMaxRails> rkeys_{};
    std::array<uint32_t, wire::kMaxRails> lkeys_{};
  };
  // For host memory, which NCCL registers for itself alone.
  static inline const SlotFlags kHostFlags{0};

  // What the slots of receives into the buffer state about it. Outlives the handle.
  const SlotFlags* slot_flags = &kHostFlags;
  // The CPU can read the buffer, so that small sends can be inline.
  bool host = true;
  Keys keys{};
  // References into the HCAs' registration caches; those on standby rails are the connection's.
  std::shared_ptr<StandbyRegistrations> standby;
  std::vector<std::pair<std::shared_ptr<HcaContext>, ibv_mr*>> registrations;
  // Where the buffer is one of NCCL's own in GPU memory: keeps its allocation known as such.
  OwnAllocations::Own own;

  // A buffer of the user's own, in GPU memory.
  bool is_users() const { return !host && own == nullptr; }

  // Makes room for the registrations on that many rails. Without, add() may throw, which leaves its
  // reference to nobody.
  void reserve(size_t rails) { registrations.reserve(rails); }

  // Takes over one reference to `mr`, which is in hca's registration cache: the buffer's on that
  // rail. in: what the connection of a standby rail has; null: the rail does not stand by.
  void add(size_t rail, const std::shared_ptr<HcaContext>& hca, ibv_mr* mr,
           std::shared_ptr<StandbyRegistrations> in = nullptr) {
    keys.set(rail, {mr->lkey, mr->rkey});
    if (in == nullptr) {
      registrations.emplace_back(hca, mr);
    } else {
      standby = std::move(in);
      standby->add(this, rail, hca, mr);
    }
  }

  MemoryHandle() = default;
  MemoryHandle(const MemoryHandle&) = delete;
  MemoryHandle& operator=(const MemoryHandle&) = delete;
  ~MemoryHandle() {
    if (standby != nullptr) standby->release(this);
    for (auto& [hca, mr] : registrations) hca->registrations().release(mr);
  }
};
static_assert(offsetof(MemoryHandle, keys) + (wire::kMaxRails + 4) * sizeof(uint32_t) <= 64);

}  // namespace gdr::transport

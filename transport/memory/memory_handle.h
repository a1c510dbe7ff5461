// What regMr returns: the registrations of one buffer for one comm.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "transport/device/hca.h"
#include "transport/memory/own_allocations.h"
#include "transport/memory/standby_registrations.h"
#include "transport/wire/wire.h"

namespace gdr::transport {

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
